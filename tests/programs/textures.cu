// Textures and surfaces over arrays, rows and plain memory: elements, filters, edges, layers,
// cubes, levels, and what a kernel writes into a surface and reads back through a texture.
__global__ void fetch(cudaTextureObject_t texture, float* out, int count) {
  const int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < count) out[i] = tex1Dfetch<float>(texture, i - 1);
}

__global__ void sample(cudaTextureObject_t texture, float* out, int width, int height,
                       float shift) {
  const unsigned x = blockIdx.x * blockDim.x + threadIdx.x;
  const unsigned y = blockIdx.y * blockDim.y + threadIdx.y;
  if (x < width && y < height) out[y * width + x] = tex2D<float>(texture, x + shift, y + shift);
}

__global__ void colours(cudaTextureObject_t texture, float4* out, uchar4* raw,
                        cudaTextureObject_t raw_texture, int width) {
  const int x = threadIdx.x;
  if (x >= width) return;
  out[x] = tex1D<float4>(texture, (x + 0.5f) / width);
  tex1D(&raw[x], raw_texture, x + 0.5f);
}

__global__ void write(cudaSurfaceObject_t surface, int width, int height) {
  const int x = blockIdx.x * blockDim.x + threadIdx.x, y = blockIdx.y * blockDim.y + threadIdx.y;
  // Beyond the edges nothing is written, and nothing is read.
  surf2Dwrite<float>(100.0f * y + x, surface, x * sizeof(float), y, cudaBoundaryModeZero);
  if (x == width && y == 0) {
    const float outside = surf2Dread<float>(surface, x * sizeof(float), y, cudaBoundaryModeZero);
    const float edge = surf2Dread<float>(surface, x * sizeof(float), y, cudaBoundaryModeClamp);
    surf2Dwrite(outside + edge, surface, 0, 0);
  }
}

__global__ void outside(cudaSurfaceObject_t surface) { surf2Dwrite(1.0f, surface, 0, 1 << 20); }

__global__ void deep(cudaTextureObject_t box, cudaTextureObject_t layers, cudaTextureObject_t cube,
                     cudaTextureObject_t flat, float* out) {
  out[0] = tex3D<float>(box, 1.0f, 1.0f, 1.0f);
  out[1] = tex2DLayered<float>(layers, 0.5f, 0.5f, 1);
  out[2] = texCubemap<float>(cube, 0.1f, -0.9f, 0.2f);
  const float4 four = tex2Dgather<float4>(flat, 1.0f, 1.0f);
  out[3] = four.x;
  out[4] = four.z;
}

__global__ void layers(cudaTextureObject_t texture, float* out) {
  for (int i = 0; i < 3; i++) out[i] = tex2DLayered<float>(texture, 0.5f, 0.5f, i);
}

__global__ void levels(cudaTextureObject_t texture, float* out) {
  out[0] = tex2DLod<float>(texture, 0.5f, 0.5f, 0);
  out[1] = tex2DLod<float>(texture, 0.5f, 0.5f, 1);
  out[2] = tex2DLod<float>(texture, 0.5f, 0.5f, 0.5f);
  out[3] = tex2DGrad<float>(texture, 0.5f, 0.5f, make_float2(0.5f, 0), make_float2(0, 0.5f));
}

#ifdef __CUDACC__
#include <cstring>

#include "program.h"

static cudaTextureDesc plain() {
  cudaTextureDesc how;
  std::memset(&how, 0, sizeof how);
  for (auto& mode : how.addressMode) mode = cudaAddressModeClamp;
  how.readMode = cudaReadModeElementType;
  return how;
}

static cudaResourceDesc of_array(cudaArray_t array) {
  cudaResourceDesc what;
  std::memset(&what, 0, sizeof what);
  what.resType = cudaResourceTypeArray;
  what.res.array.array = array;
  return what;
}

static float* room(int count) {
  float* device;
  OK(cudaMalloc(&device, count * sizeof(float)));
  return device;
}

static void linear_memory() {
  std::vector<float> in(1000);
  for (int i = 0; i < 1000; i++) in[i] = i * 0.5f;
  float *device = upload(in), *out = room(1002);
  cudaResourceDesc what;
  std::memset(&what, 0, sizeof what);
  what.resType = cudaResourceTypeLinear;
  what.res.linear = {device, cudaCreateChannelDesc<float>(), in.size() * sizeof(float)};
  cudaTextureDesc how = plain();
  cudaTextureObject_t texture = 0;
  OK(cudaCreateTextureObject(&texture, &what, &how, nullptr));
  fetch<<<8, 128>>>(texture, out, 1002);
  LAUNCHED();
  const auto got = download(out, 1002);
  EXPECT(got[0] == 0 && got[1001] == 0);
  for (int i = 0; i < 1000; i++) EXPECT(got[i + 1] == in[i]);
  cudaResourceDesc found;
  OK(cudaGetTextureObjectResourceDesc(&found, texture));
  EXPECT(found.res.linear.devPtr == device && found.res.linear.desc.x == 32);
  OK(cudaDestroyTextureObject(texture));
  EXPECT(cudaDestroyTextureObject(texture) == cudaErrorInvalidValue);
  what.res.linear.devPtr = device + 1;
  EXPECT(cudaCreateTextureObject(&texture, &what, &how, nullptr) == cudaErrorInvalidValue);
  what.res.linear.devPtr = in.data();
  EXPECT(cudaCreateTextureObject(&texture, &what, &how, nullptr) != cudaSuccess);
  cudaGetLastError();
  OK(cudaFree(device));
  OK(cudaFree(out));
}

static void rows() {
  const int width = 60, height = 11;
  float* device;
  size_t pitch;
  OK(cudaMallocPitch(&device, &pitch, width * sizeof(float), height));
  std::vector<float> in(width * height);
  for (int i = 0; i < width * height; i++) in[i] = i;
  OK(cudaMemcpy2D(device, pitch, in.data(), width * 4, width * 4, height, cudaMemcpyHostToDevice));
  cudaResourceDesc what;
  std::memset(&what, 0, sizeof what);
  what.resType = cudaResourceTypePitch2D;
  what.res.pitch2D.devPtr = device;
  what.res.pitch2D.desc = cudaCreateChannelDesc<float>();
  what.res.pitch2D.width = width;
  what.res.pitch2D.height = height;
  what.res.pitch2D.pitchInBytes = pitch;
  cudaTextureDesc how = plain();
  how.filterMode = cudaFilterModeLinear;
  cudaTextureObject_t texture = 0;
  OK(cudaCreateTextureObject(&texture, &what, &how, nullptr));
  float* out = room(width * height);
  sample<<<dim3(4, 2), dim3(16, 8)>>>(texture, out, width, height, 0.5f);
  LAUNCHED();
  EXPECT(download(out, width * height) == in);
  // Between the centres of four.
  sample<<<dim3(4, 2), dim3(16, 8)>>>(texture, out, width, height, 1.0f);
  LAUNCHED();
  const auto mixed = download(out, width * height);
  for (int y = 0; y + 1 < height; y++) {
    for (int x = 0; x + 1 < width; x++) {
      EXPECT(mixed[y * width + x] == in[y * width + x] + (width + 1) / 2.0f);
    }
  }
  what.res.pitch2D.pitchInBytes = pitch + 4;
  cudaTextureObject_t other;
  EXPECT(cudaCreateTextureObject(&other, &what, &how, nullptr) == cudaErrorInvalidValue);
  cudaGetLastError();
  OK(cudaDestroyTextureObject(texture));
  OK(cudaFree(device));
  OK(cudaFree(out));
}

static void bytes_as_fractions() {
  const int width = 5;
  const cudaChannelFormatDesc channels = cudaCreateChannelDesc<uchar4>();
  cudaArray_t array;
  OK(cudaMallocArray(&array, &channels, width));
  std::vector<uchar4> in;
  for (int i = 0; i < width; i++) {
    in.push_back(make_uchar4(i, 50 * i, 255 - i, 7));
  }
  OK(cudaMemcpy2DToArray(array, 0, 0, in.data(), width * 4, width * 4, 1, cudaMemcpyHostToDevice));
  const cudaResourceDesc what = of_array(array);
  cudaTextureDesc how = plain();
  cudaTextureObject_t raw, fractions;
  OK(cudaCreateTextureObject(&raw, &what, &how, nullptr));
  how.readMode = cudaReadModeNormalizedFloat;
  how.normalizedCoords = 1;
  OK(cudaCreateTextureObject(&fractions, &what, &how, nullptr));
  cudaTextureDesc found;
  OK(cudaGetTextureObjectTextureDesc(&found, fractions));
  EXPECT(found.readMode == cudaReadModeNormalizedFloat && found.normalizedCoords == 1);
  // Whole numbers cannot be mixed.
  how.readMode = cudaReadModeElementType;
  how.filterMode = cudaFilterModeLinear;
  cudaTextureObject_t refused;
  EXPECT(cudaCreateTextureObject(&refused, &what, &how, nullptr) == cudaErrorInvalidValue);
  cudaGetLastError();
  float4* out;
  uchar4* copies;
  OK(cudaMalloc(&out, width * sizeof(float4)));
  OK(cudaMalloc(&copies, width * sizeof(uchar4)));
  colours<<<1, 32>>>(fractions, out, copies, raw, width);
  LAUNCHED();
  const auto got = download(out, width);
  const auto same = download(copies, width);
  for (int i = 0; i < width; i++) {
    EXPECT(got[i].y == in[i].y / 255.0f && got[i].w == 7 / 255.0f);
    EXPECT(same[i].x == in[i].x && same[i].y == in[i].y && same[i].z == in[i].z);
  }
  OK(cudaDestroyTextureObject(raw));
  OK(cudaDestroyTextureObject(fractions));
  OK(cudaFreeArray(array));
  OK(cudaFree(out));
  OK(cudaFree(copies));
}

static void surfaces() {
  const int width = 20, height = 9;
  const cudaChannelFormatDesc channels = cudaCreateChannelDesc<float>();
  cudaArray_t array, plain_array;
  OK(cudaMallocArray(&array, &channels, width, height, cudaArraySurfaceLoadStore));
  OK(cudaMallocArray(&plain_array, &channels, width, height));
  cudaResourceDesc what = of_array(plain_array);
  cudaSurfaceObject_t surface;
  EXPECT(cudaCreateSurfaceObject(&surface, &what) == cudaErrorInvalidValue);
  cudaGetLastError();
  what = of_array(array);
  OK(cudaCreateSurfaceObject(&surface, &what));
  cudaStream_t stream;
  OK(cudaStreamCreate(&stream));
  write<<<dim3(2, 2), dim3(16, 8), 0, stream>>>(surface, width, height);
  LAUNCHED();
  OK(cudaStreamSynchronize(stream));
  cudaTextureDesc how = plain();
  cudaTextureObject_t texture;
  OK(cudaCreateTextureObject(&texture, &what, &how, nullptr));
  float* out = room(width * height);
  sample<<<dim3(2, 2), dim3(16, 8)>>>(texture, out, width, height, 0.0f);
  LAUNCHED();
  const auto got = download(out, width * height);
  for (int y = 0; y < height; y++) {
    for (int x = 0; x < width; x++) {
      // The corner is written last: what is outside, nothing, and the end of the first row.
      if (x + y > 0) EXPECT(got[y * width + x] == 100.0f * y + x);
    }
  }
  OK(cudaDestroyTextureObject(texture));
  OK(cudaFree(out));
  OK(cudaFreeArray(plain_array));
  OK(cudaStreamDestroy(stream));
  // An access outside, where the kernel said that there is none, ends the launch.
  outside<<<1, 1>>>(surface);
  EXPECT(cudaDeviceSynchronize() == cudaErrorLaunchFailure);
}

static cudaArray_t filled(cudaExtent extent, unsigned flags) {
  const cudaChannelFormatDesc channels = cudaCreateChannelDesc<float>();
  cudaArray_t array;
  OK(cudaMalloc3DArray(&array, &channels, extent, flags));
  const size_t slices = extent.depth ? extent.depth : 1;
  std::vector<float> in(extent.width * extent.height * slices);
  for (size_t i = 0; i < in.size(); i++) in[i] = i;
  cudaMemcpy3DParms copy;
  std::memset(&copy, 0, sizeof copy);
  copy.srcPtr = make_cudaPitchedPtr(in.data(), extent.width * 4, extent.width, extent.height);
  copy.dstArray = array;
  copy.extent = make_cudaExtent(extent.width, extent.height, slices);
  copy.kind = cudaMemcpyHostToDevice;
  OK(cudaMemcpy3D(&copy));
  return array;
}

static void more_dimensions() {
  cudaArray_t arrays[] = {filled({2, 2, 2}, 0), filled({2, 2, 3}, cudaArrayLayered),
                          filled({2, 2, 6}, cudaArrayCubemap),
                          filled({2, 2, 0}, cudaArrayTextureGather)};
  cudaTextureObject_t textures[4];
  for (int i = 0; i < 4; i++) {
    cudaTextureDesc how = plain();
    how.filterMode = i == 0 ? cudaFilterModeLinear : cudaFilterModePoint;
    how.normalizedCoords = i == 2;
    const cudaResourceDesc what = of_array(arrays[i]);
    OK(cudaCreateTextureObject(&textures[i], &what, &how, nullptr));
  }
  float* out = room(5);
  deep<<<1, 1>>>(textures[0], textures[1], textures[2], textures[3], out);
  LAUNCHED();
  const auto got = download(out, 5);
  EXPECT(got[0] == 3.5f);
  EXPECT(got[1] == 4);
  EXPECT(got[2] >= 12 && got[2] < 16);  // the face of -y
  EXPECT(got[3] == 2 && got[4] == 1);
  for (auto texture : textures) OK(cudaDestroyTextureObject(texture));
  for (auto array : arrays) OK(cudaFreeArray(array));
  OK(cudaFree(out));
}

// Layers behind those of a view are not seen: a layer too far is the last.
static void views_of_layers() {
  cudaArray_t array = filled({2, 2, 4}, cudaArrayLayered);
  const cudaResourceDesc what = of_array(array);
  const cudaTextureDesc how = plain();
  float* out = room(3);
  const unsigned views[3][2] = {{0, 0}, {1, 2}, {0, 3}};
  const float expected[3][3] = {{0, 0, 0}, {4, 8, 8}, {0, 4, 8}};
  for (int i = 0; i < 3; i++) {
    cudaResourceViewDesc view;
    std::memset(&view, 0, sizeof view);
    view.width = view.height = 2;
    view.depth = 4;
    view.firstLayer = views[i][0];
    view.lastLayer = views[i][1];
    cudaTextureObject_t texture;
    OK(cudaCreateTextureObject(&texture, &what, &how, &view));
    layers<<<1, 1>>>(texture, out);
    LAUNCHED();
    EXPECT(download(out, 3) == std::vector<float>(expected[i], expected[i] + 3));
    OK(cudaDestroyTextureObject(texture));
  }
  OK(cudaFreeArray(array));
  OK(cudaFree(out));
}

static void mipmaps() {
  const cudaChannelFormatDesc channels = cudaCreateChannelDesc<float>();
  cudaMipmappedArray_t mipmapped;
  OK(cudaMallocMipmappedArray(&mipmapped, &channels, make_cudaExtent(4, 4, 0), 2));
  for (unsigned level = 0; level < 2; level++) {
    cudaArray_t array;
    OK(cudaGetMipmappedArrayLevel(&array, mipmapped, level));
    const int side = 4 >> level;
    std::vector<float> in(side * side, level ? 8.0f : 2.0f);
    OK(cudaMemcpy2DToArray(array, 0, 0, in.data(), side * 4, side * 4, side,
                           cudaMemcpyHostToDevice));
  }
  cudaResourceDesc what;
  std::memset(&what, 0, sizeof what);
  what.resType = cudaResourceTypeMipmappedArray;
  what.res.mipmap.mipmap = mipmapped;
  cudaTextureDesc how = plain();
  how.normalizedCoords = 1;
  how.filterMode = how.mipmapFilterMode = cudaFilterModeLinear;
  how.maxMipmapLevelClamp = 1;
  cudaTextureObject_t texture;
  OK(cudaCreateTextureObject(&texture, &what, &how, nullptr));
  float* out = room(4);
  levels<<<1, 1>>>(texture, out);
  LAUNCHED();
  const auto got = download(out, 4);
  EXPECT(got[0] == 2 && got[1] == 8 && got[2] == 5 && got[3] == 8);
  OK(cudaDestroyTextureObject(texture));
  OK(cudaFreeMipmappedArray(mipmapped));
  OK(cudaFree(out));
}

int main() {
  linear_memory();
  rows();
  bytes_as_fractions();
  more_dimensions();
  views_of_layers();
  mipmaps();
  surfaces();  // last: it ends with a failed launch
  std::printf("textures and surfaces: right\n");
  return 0;
}
#endif
