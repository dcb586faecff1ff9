// The nearest of many places to one: distances, then the smallest with its index in one 64-bit
// atomic minimum.
struct Place {
  float latitude, longitude;
};

__global__ void distances(const Place* places, float* distance, int count, Place here) {
  const int i = blockDim.x * (gridDim.x * blockIdx.y + blockIdx.x) + threadIdx.x;
  if (i >= count) return;
  const float dx = places[i].latitude - here.latitude, dy = places[i].longitude - here.longitude;
  distance[i] = sqrtf(dx * dx + dy * dy);
}

__global__ void nearest(const float* distance, int count, unsigned long long* best) {
  const int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i >= count) return;
  // Distances are not negative, so their bits are ordered as they are.
  const unsigned long long bits = __float_as_uint(distance[i]);
  atomicMin(best, bits << 32 | static_cast<unsigned>(i));
}

#ifdef __CUDACC__
#include "program.h"

int main() {
  const int count = 10'000;
  unsigned seed = 8;
  const Place here = {30.5f, 90.25f};
  std::vector<Place> places(count);
  int expected = 0;
  auto squared = [&](const Place& place) {
    const double dx = place.latitude - here.latitude, dy = place.longitude - here.longitude;
    return dx * dx + dy * dy;
  };
  for (int i = 0; i < count; ++i) {
    places[i] = {90.0f * random_float(&seed), 180.0f * random_float(&seed)};
    if (squared(places[i]) < squared(places[expected])) expected = i;
  }
  Place* device = upload(places);
  float* distance = nullptr;
  unsigned long long* best = nullptr;
  OK(cudaMalloc(&distance, count * sizeof(float)));
  OK(cudaMalloc(&best, sizeof *best));
  OK(cudaMemset(best, 0xff, sizeof *best));
  distances<<<dim3(20, 4), 128>>>(device, distance, count, here);
  LAUNCHED();
  nearest<<<(count + 255) / 256, 256>>>(distance, count, best);
  LAUNCHED();
  const auto found = static_cast<int>(download(best, 1)[0] & 0xffffffffu);
  EXPECT(squared(places[found]) <= squared(places[expected]) + 1e-3);
  const auto all = download(distance, count);
  for (int i = 0; i < count; ++i) EXPECT(close_to(all[i], std::sqrt(squared(places[i]))));
  std::puts("ok");
}
#endif
