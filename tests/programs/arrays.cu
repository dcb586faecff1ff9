// Arrays of one, two and three dimensions filled and emptied by every kind of copy, in step and in
// streams, and their levels. What kernels read of them is in textures.cu.
__global__ void ramp(unsigned char* bytes, int count) {
  const int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < count) bytes[i] = static_cast<unsigned char>(i * 7);
}

#ifdef __CUDACC__
#include "program.h"

static void describe() {
  const cudaChannelFormatDesc channels = cudaCreateChannelDesc<float2>();
  cudaArray_t array;
  OK(cudaMallocArray(&array, &channels, 33, 7));
  cudaChannelFormatDesc found;
  cudaExtent extent;
  unsigned flags = 99;
  OK(cudaArrayGetInfo(&found, &extent, &flags, array));
  EXPECT(found.x == 32 && found.y == 32 && found.z == 0 && found.f == cudaChannelFormatKindFloat);
  EXPECT(extent.width == 33 && extent.height == 7 && extent.depth == 0 && flags == 0);
  OK(cudaGetChannelDesc(&found, array));
  EXPECT(found.x == 32);
  OK(cudaFreeArray(array));
  OK(cudaFreeArray(nullptr));
  EXPECT(cudaFreeArray(array) != cudaSuccess);
  const cudaChannelFormatDesc three{8, 8, 8, 0, cudaChannelFormatKindUnsigned};
  const cudaChannelFormatDesc uneven{8, 16, 0, 0, cudaChannelFormatKindUnsigned};
  EXPECT(cudaMallocArray(&array, &three, 4) == cudaErrorInvalidChannelDescriptor);
  EXPECT(cudaMallocArray(&array, &uneven, 4) == cudaErrorInvalidChannelDescriptor);
  EXPECT(cudaGetLastError() == cudaErrorInvalidChannelDescriptor);
}

// A rectangle in the middle, by way of rows with a pitch.
static void rectangles() {
  const int width = 24, height = 10, pitch = 40;
  const cudaChannelFormatDesc channels = cudaCreateChannelDesc<unsigned char>();
  cudaArray_t one, two;
  OK(cudaMallocArray(&one, &channels, width, height));
  OK(cudaMallocArray(&two, &channels, width, height));
  std::vector<unsigned char> in(pitch * height), out(pitch * height, 0);
  for (size_t i = 0; i < in.size(); i++) in[i] = static_cast<unsigned char>(i);
  OK(cudaMemcpy2DToArray(one, 2, 3, in.data(), pitch, 20, 5, cudaMemcpyHostToDevice));
  OK(cudaMemcpy2DArrayToArray(two, 1, 4, one, 2, 3, 20, 5));
  OK(cudaMemcpy2DFromArray(out.data(), pitch, two, 1, 4, 20, 5, cudaMemcpyDefault));
  for (int y = 0; y < 5; y++) {
    for (int x = 0; x < pitch; x++) {
      EXPECT(out[y * pitch + x] == (x < 20 ? in[y * pitch + x] : 0));
    }
  }
  EXPECT(cudaMemcpy2DToArray(one, 5, 0, in.data(), pitch, 20, 1, cudaMemcpyHostToDevice) ==
         cudaErrorInvalidValue);
  EXPECT(cudaMemcpy2DToArray(one, 0, 0, in.data(), 10, 20, 2, cudaMemcpyHostToDevice) ==
         cudaErrorInvalidPitchValue);
  EXPECT(cudaMemcpy2DToArray(one, 0, 0, in.data(), pitch, 20, 1, cudaMemcpyDeviceToHost) ==
         cudaErrorInvalidMemcpyDirection);
  EXPECT(cudaGetLastError() == cudaErrorInvalidMemcpyDirection);
  OK(cudaFreeArray(one));
  OK(cudaFreeArray(two));
}

// A run of bytes that begins and ends inside rows; the device's memory takes part too.
#pragma GCC diagnostic ignored "-Wdeprecated-declarations"
static void runs(cudaStream_t stream) {
  const int width = 16, height = 8, bytes = 70;
  const cudaChannelFormatDesc channels = cudaCreateChannelDesc<unsigned char>();
  cudaArray_t array, other;
  OK(cudaMallocArray(&array, &channels, width, height));
  OK(cudaMallocArray(&other, &channels, width * 2, height));
  unsigned char *device = nullptr, *pinned = nullptr;
  OK(cudaMalloc(&device, bytes));
  OK(cudaMallocHost(&pinned, bytes));
  ramp<<<1, 128, 0, stream>>>(device, bytes);
  LAUNCHED();
  OK(cudaMemcpyToArrayAsync(array, 5, 1, device, bytes, cudaMemcpyDeviceToDevice, stream));
  OK(cudaMemcpyFromArrayAsync(pinned, array, 5, 1, bytes, cudaMemcpyDeviceToHost, stream));
  OK(cudaStreamSynchronize(stream));
  for (int i = 0; i < bytes; i++) EXPECT(pinned[i] == static_cast<unsigned char>(i * 7));
  OK(cudaMemcpyArrayToArray(other, 3, 2, array, 5, 1, bytes, cudaMemcpyDeviceToDevice));
  std::vector<unsigned char> out(bytes);
  OK(cudaMemcpyFromArray(out.data(), other, 3, 2, bytes, cudaMemcpyDeviceToHost));
  for (int i = 0; i < bytes; i++) EXPECT(out[i] == static_cast<unsigned char>(i * 7));
  OK(cudaMemcpyToArray(array, 0, 0, out.data(), width * height / 2, cudaMemcpyHostToDevice));
  EXPECT(cudaMemcpyToArray(array, 1, 0, out.data(), width * height, cudaMemcpyHostToDevice) ==
         cudaErrorInvalidValue);
  OK(cudaFree(device));
  OK(cudaFreeHost(pinned));
  OK(cudaFreeArray(array));
  OK(cudaFreeArray(other));
}

// Boxes count in elements where an array takes part.
static void boxes(cudaStream_t stream) {
  const cudaExtent all = make_cudaExtent(6, 5, 4);
  const cudaChannelFormatDesc channels = cudaCreateChannelDesc<int>();
  cudaArray_t array;
  OK(cudaMalloc3DArray(&array, &channels, all));
  std::vector<int> in(6 * 5 * 4), out(6 * 5 * 4, -1);
  for (size_t i = 0; i < in.size(); i++) in[i] = static_cast<int>(i);
  cudaMemcpy3DParms to{};
  to.srcPtr = make_cudaPitchedPtr(in.data(), 6 * sizeof(int), 6, 5);
  to.dstArray = array;
  to.extent = all;
  to.kind = cudaMemcpyHostToDevice;
  OK(cudaMemcpy3D(&to));
  cudaMemcpy3DParms from{};
  from.srcArray = array;
  from.srcPos = make_cudaPos(2, 1, 1);
  from.dstPtr = make_cudaPitchedPtr(out.data(), 6 * sizeof(int), 6, 5);
  from.extent = make_cudaExtent(3, 2, 2);
  from.kind = cudaMemcpyDeviceToHost;
  OK(cudaMemcpy3DAsync(&from, stream));
  OK(cudaStreamSynchronize(stream));
  for (int z = 0; z < 4; z++) {
    for (int y = 0; y < 5; y++) {
      for (int x = 0; x < 6; x++) {
        const bool inside = x < 3 && y < 2 && z < 2;
        EXPECT(out[(z * 5 + y) * 6 + x] == (inside ? in[((z + 1) * 5 + y + 1) * 6 + x + 2] : -1));
      }
    }
  }
  from.srcPtr = from.dstPtr;
  EXPECT(cudaMemcpy3D(&from) == cudaErrorInvalidValue);  // two sources
  from.srcPtr = {};
  from.extent.width = 5;
  EXPECT(cudaMemcpy3D(&from) == cudaErrorInvalidValue);  // beyond the array

  // The same in a graph, whose node tells the box as it was given.
  cudaGraph_t graph;
  cudaGraphNode_t node;
  OK(cudaGraphCreate(&graph, 0));
  from.extent.width = 4;
  OK(cudaGraphAddMemcpyNode(&node, graph, nullptr, 0, &from));
  cudaMemcpy3DParms told;
  OK(cudaGraphMemcpyNodeGetParams(node, &told));
  EXPECT(told.srcArray == array && told.srcPos.x == 2 && told.extent.width == 4);
  EXPECT(told.dstPtr.ptr == out.data() && told.dstArray == nullptr);
  cudaGraphExec_t exec;
  OK(cudaGraphInstantiate(&exec, graph, 0));
  OK(cudaGraphLaunch(exec, stream));
  OK(cudaStreamSynchronize(stream));
  EXPECT(out[3] == in[(5 + 1) * 6 + 5]);
  OK(cudaGraphExecDestroy(exec));
  OK(cudaGraphDestroy(graph));
  OK(cudaFreeArray(array));
}

static void levels() {
  const cudaChannelFormatDesc channels = cudaCreateChannelDesc<short>();
  cudaMipmappedArray_t array;
  OK(cudaMallocMipmappedArray(&array, &channels, make_cudaExtent(16, 8, 0), 3));
  cudaArray_t level;
  OK(cudaGetMipmappedArrayLevel(&level, array, 2));
  cudaExtent extent;
  OK(cudaArrayGetInfo(nullptr, &extent, nullptr, level));
  EXPECT(extent.width == 4 && extent.height == 2);
  short in[8] = {1, 2, 3, 4, 5, 6, 7, 8}, out[8] = {};
  OK(cudaMemcpy2DToArray(level, 0, 0, in, 8, 8, 2, cudaMemcpyHostToDevice));
  OK(cudaMemcpy2DFromArray(out, 8, level, 0, 0, 8, 2, cudaMemcpyDeviceToHost));
  for (int i = 0; i < 8; i++) EXPECT(out[i] == in[i]);
  EXPECT(cudaGetMipmappedArrayLevel(&level, array, 3) == cudaErrorInvalidValue);
  OK(cudaFreeMipmappedArray(array));
}

int main() {
  cudaStream_t stream;
  OK(cudaStreamCreate(&stream));
  describe();
  rectangles();
  runs(stream);
  boxes(stream);
  levels();
  OK(cudaStreamDestroy(stream));
  std::puts("ok");
}
#endif
