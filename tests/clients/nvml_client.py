"""NVIDIA's own Python bindings of NVML (nvidia-ml-py) at work on whatever libnvidia-ml.so.1 their process finds.

usage: nvml_client.py PID: the process that holds memory of device 0. Prints the name of each part that held.
"""
import sys

import pynvml as nvml


def devices():
    assert nvml.nvmlDeviceGetCount() == 4
    assert "emulated" in nvml.nvmlSystemGetDriverVersion()
    for index in range(4):
        device = nvml.nvmlDeviceGetHandleByIndex(index)
        assert "Emulated" in nvml.nvmlDeviceGetName(device)
        assert nvml.nvmlDeviceGetIndex(nvml.nvmlDeviceGetHandleByUUID(nvml.nvmlDeviceGetUUID(device))) == index
        assert nvml.nvmlDeviceGetCudaComputeCapability(device) == (9, 0)
        assert nvml.nvmlDeviceGetClockInfo(device, nvml.NVML_CLOCK_SM) > 0
        assert 0 <= nvml.nvmlDeviceGetUtilizationRates(device).gpu <= 100


def memory_and_processes(pid):
    device = nvml.nvmlDeviceGetHandleByIndex(0)
    memory = nvml.nvmlDeviceGetMemoryInfo(device)
    assert memory.total == memory.free + memory.used
    (process,) = nvml.nvmlDeviceGetComputeRunningProcesses(device)
    assert process.pid == pid
    assert 64 << 20 <= process.usedGpuMemory <= memory.used
    assert nvml.nvmlDeviceGetMPSComputeRunningProcesses(device) == []
    assert "python" in nvml.nvmlSystemGetProcessName(pid)


def topology():
    one, two, three = (nvml.nvmlDeviceGetHandleByIndex(index) for index in range(3))
    assert nvml.nvmlDeviceGetNvLinkState(one, 0) == nvml.NVML_FEATURE_ENABLED
    assert nvml.nvmlDeviceGetNvLinkVersion(one, 0) == nvml.NVML_NVLINK_VERSION_4_0
    remote = nvml.nvmlDeviceGetNvLinkRemotePciInfo(one, 0)
    assert remote.busId == nvml.nvmlDeviceGetPciInfo(two).busId
    assert nvml.nvmlDeviceGetP2PStatus(one, two, nvml.NVML_P2P_CAPS_INDEX_NVLINK) == nvml.NVML_P2P_STATUS_OK
    assert nvml.nvmlDeviceGetTopologyCommonAncestor(one, three) == nvml.NVML_TOPOLOGY_HOSTBRIDGE
    assert len(nvml.nvmlDeviceGetTopologyNearestGpus(one, nvml.NVML_TOPOLOGY_HOSTBRIDGE)) == 3


def refusals():
    """What is not modelled is said so."""
    device = nvml.nvmlDeviceGetHandleByIndex(0)
    for call, code in ((nvml.nvmlDeviceGetPowerUsage, nvml.NVML_ERROR_NOT_SUPPORTED),
                       (nvml.nvmlDeviceGetFanSpeed, nvml.NVML_ERROR_FUNCTION_NOT_FOUND)):
        try:
            call(device)
        except nvml.NVMLError as error:
            assert error.value == code, error
        else:
            raise AssertionError(call.__name__)


def main():
    nvml.nvmlInit()
    for part, arguments in ((devices, ()), (memory_and_processes, (int(sys.argv[1]),)), (topology, ()), (refusals, ())):
        part(*arguments)
        print(part.__name__, flush=True)
    nvml.nvmlShutdown()


if __name__ == "__main__":
    main()
