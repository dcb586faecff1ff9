// Many copies in one call: lines, boxes, and boxes between two devices.
__global__ void add_one(int* values, int count) {
  const int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < count) values[i] += 1;
}

#ifdef __CUDACC__
#include "program.h"

static void lines(cudaStream_t stream) {
  const int pieces = 8, count = 1000;
  std::vector<int*> host(pieces), device(pieces);
  std::vector<void*> to(pieces);
  std::vector<const void*> from(pieces);
  std::vector<size_t> bytes(pieces, count * sizeof(int));
  for (int i = 0; i < pieces; i++) {
    OK(cudaMallocHost(&host[i], count * sizeof(int)));
    OK(cudaMalloc(&device[i], count * sizeof(int)));
    for (int k = 0; k < count; k++) host[i][k] = i * count + k;
    to[i] = device[i];
    from[i] = host[i];
  }
  cudaMemcpyAttributes attributes{};
  attributes.srcAccessOrder = cudaMemcpySrcAccessOrderStream;
  size_t first = 0;
  OK(cudaMemcpyBatchAsync(to.data(), from.data(), bytes.data(), pieces, &attributes, &first, 1,
                          stream));
  for (int* each : device) {
    add_one<<<(count + 127) / 128, 128, 0, stream>>>(each, count);
    LAUNCHED();
  }
  for (int i = 0; i < pieces; i++) {
    to[i] = host[i];
    from[i] = device[i];
  }
  OK(cudaMemcpyBatchAsync(to.data(), from.data(), bytes.data(), pieces, &attributes, &first, 1,
                          stream));
  OK(cudaStreamSynchronize(stream));
  for (int i = 0; i < pieces; i++) {
    for (int k = 0; k < count; k++) EXPECT(host[i][k] == i * count + k + 1);
  }
  // The default stream takes no batches, and a batch of nothing is an error.
  EXPECT(cudaMemcpyBatchAsync(to.data(), from.data(), bytes.data(), pieces, &attributes, &first, 1,
                              nullptr) == cudaErrorInvalidValue);
  EXPECT(cudaMemcpyBatchAsync(to.data(), from.data(), bytes.data(), 0, &attributes, &first, 1,
                              stream) == cudaErrorInvalidValue);
  for (int i = 0; i < pieces; i++) {
    OK(cudaFreeHost(host[i]));
    OK(cudaFree(device[i]));
  }
}

static void boxes(cudaStream_t stream) {
  const size_t width = 12, height = 4, depth = 3;
  std::vector<unsigned char> in(width * height * depth), out(in.size(), 0);
  for (size_t i = 0; i < in.size(); i++) in[i] = static_cast<unsigned char>(i * 3);
  cudaPitchedPtr device;
  OK(cudaMalloc3D(&device, make_cudaExtent(width, height, depth)));
  EXPECT(device.pitch >= width);
  cudaMemcpy3DBatchOp operations[2]{};
  operations[0].src.type = operations[0].dst.type = cudaMemcpyOperandTypePointer;
  operations[0].src.op.ptr = {in.data(), width, height, {}};
  operations[0].dst.op.ptr = {device.ptr, device.pitch, height, {}};
  operations[0].extent = make_cudaExtent(width, height, 1);
  operations[0].srcAccessOrder = cudaMemcpySrcAccessOrderDuringApiCall;
  operations[1] = operations[0];
  const size_t slice = width * height;
  operations[1].src.op.ptr.ptr = in.data() + slice;
  operations[1].dst.op.ptr.ptr = static_cast<char*>(device.ptr) + device.pitch * height;
  operations[1].extent.depth = 2;
  OK(cudaMemcpy3DBatchAsync(2, operations, 0, stream));
  cudaMemcpy3DParms back{};
  back.srcPtr = device;
  back.dstPtr = make_cudaPitchedPtr(out.data(), width, width, height);
  back.extent = make_cudaExtent(width, height, depth);
  back.kind = cudaMemcpyDeviceToHost;
  OK(cudaMemcpy3DAsync(&back, stream));
  OK(cudaStreamSynchronize(stream));
  EXPECT(in == out);
  OK(cudaFree(device.ptr));
}

static void boxes_between_devices(cudaStream_t stream) {
  const int width = 8, height = 4, depth = 2, bytes = width * height * depth;
  unsigned char *here = nullptr, *there = nullptr;
  std::vector<unsigned char> in(bytes), out(bytes);
  for (int i = 0; i < bytes; i++) in[i] = static_cast<unsigned char>(i);
  OK(cudaMalloc(&here, bytes));
  OK(cudaMemcpy(here, in.data(), bytes, cudaMemcpyHostToDevice));
  OK(cudaSetDevice(1));
  OK(cudaMalloc(&there, bytes));
  OK(cudaSetDevice(0));
  cudaMemcpy3DPeerParms box{};
  box.srcPtr = make_cudaPitchedPtr(here, width, width, height);
  box.srcDevice = 0;
  box.dstPtr = make_cudaPitchedPtr(there, width, width, height);
  box.dstDevice = 1;
  box.extent = make_cudaExtent(width, height, depth);
  OK(cudaMemcpy3DPeerAsync(&box, stream));
  OK(cudaStreamSynchronize(stream));
  OK(cudaMemcpy(out.data(), there, bytes, cudaMemcpyDeviceToHost));
  EXPECT(in == out);
  box.dstDevice = 7;
  EXPECT(cudaMemcpy3DPeer(&box) == cudaErrorInvalidDevice);
  OK(cudaFree(here));
  OK(cudaFree(there));
}

int main() {
  cudaStream_t stream;
  OK(cudaStreamCreate(&stream));
  lines(stream);
  boxes(stream);
  boxes_between_devices(stream);
  OK(cudaStreamDestroy(stream));
  std::puts("ok");
}
#endif
