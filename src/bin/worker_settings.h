// From what the command line says and which devices there are to the options of each part of the
// worker. Values in, values out; what cannot be as it was asked for is logged. Used by its main.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "bin/installation.h"
#include "bin/scheduler_settings.h"
#include "bin/worker_config.h"
#include "core/base/log.h"
#include "core/http/client.h"
#include "edge/frontend/native.h"
#include "gpu/monitor/device_monitor.h"
#include "node/objects/object_store.h"
#include "node/worker/slice_choice.h"
#include "node/worker/worker.h"

namespace lambent {

// For device memory that moves to the host, unless the command line says. On an emulated GPU the
// amounts are scaled ones.
Bytes usual_host_memory(const WorkerConfig& config);

monitor::DeviceMonitorOptions monitor_options(const WorkerConfig& config,
                                              const worker::GpuDriver& driver,
                                              const Installation& installation);

// What the driver's users need to know of each device: its name for CUDA, the files of a real
// driver that belong to it and, where functions stay near their GPU, the processors near it.
// FAILED_PRECONDITION if it cannot be told which files are a device's.
Result<void> describe_devices(const WorkerConfig& config,
                              const std::vector<protocol::DeviceInventory>& devices,
                              worker::GpuDriver& driver, LogSink& log);

// Memory of integrated devices is the host's own: to move it would gain nothing. Says so of each;
// if all are integrated no memory moves, whatever the command line says.
void leave_integrated_memory(const std::vector<protocol::DeviceInventory>& devices,
                             WorkerConfig& config, LogSink& log);

// Of the policy that the command line names, over the devices that it may use.
Result<SchedulerSettings> scheduler_settings(const WorkerConfig& config,
                                             const std::vector<protocol::DeviceInventory>& devices,
                                             LogSink& log);
Result<std::unique_ptr<slice_scheduling::SliceDispatcher>> slice_dispatcher(
    const WorkerConfig& config, const pipeline::TransferCosts& costs);

objects::ObjectStoreOptions object_options(const WorkerConfig& config);
Result<std::vector<http::Endpoint>> peers_of(const WorkerConfig& config);
// Whether anything is to be encrypted: the listener, or connections to peers.
bool uses_tls(const WorkerConfig& config, const std::vector<http::Endpoint>& peers);

// All but what the worker calls back: the link, objects.
worker::WorkerOptions worker_options(const WorkerConfig& config, const Installation& installation,
                                     const worker::GpuDriver& driver,
                                     const std::vector<protocol::DeviceInventory>& all_devices,
                                     const worker::DeviceShares& shares);

// `devices` are those of dispatch.
frontend::WorkerFacts facts_of(const WorkerConfig& config,
                               const std::vector<protocol::DeviceInventory>& devices);

}  // namespace lambent
