// What CUB does for the threads of a block and of a warp, in kernels of the program's own.
#include <cuda_fp16.h>

#include <cub/cub.cuh>

constexpr int kThreads = 128, kItems = 3, kAll = kThreads * kItems;

struct Larger {
  __host__ __device__ float operator()(float a, float b) const { return a < b ? b : a; }
};

// Carries the sum of what came before from tile to tile.
struct Running {
  int sum;
  __device__ int operator()(int block) {
    const int before = sum;
    sum += block;
    return before;
  }
};

__global__ void reduce(const int* in, int* sums, float* largest, int valid) {
  using Reduce = cub::BlockReduce<int, kThreads>;
  using ReduceFloat = cub::BlockReduce<float, kThreads, cub::BLOCK_REDUCE_RAKING>;
  __shared__ typename Reduce::TempStorage first, second;
  __shared__ typename ReduceFloat::TempStorage third;
  const int value = in[blockIdx.x * blockDim.x + threadIdx.x];
  const int all = Reduce(first).Sum(value);
  const int some = Reduce(second).Sum(value, valid);
  const float most = ReduceFloat(third).Reduce(static_cast<float>(value), Larger());
  __syncthreads();
  int items[kItems];
  for (int i = 0; i < kItems; i++) items[i] = value + i;
  const int of_items = Reduce(first).Sum(items);
  if (threadIdx.x == 0) {
    sums[3 * blockIdx.x] = all;
    sums[3 * blockIdx.x + 1] = some;
    sums[3 * blockIdx.x + 2] = of_items;
    largest[blockIdx.x] = most;
  }
}

// Tiles of a block, one after the other; blocked as they are loaded, striped as they are kept.
__global__ void scan(const int* in, int* exclusive, int* inclusive, int* aggregate, int tiles) {
  using Load = cub::BlockLoad<int, kThreads, kItems, cub::BLOCK_LOAD_TRANSPOSE>;
  using Store = cub::BlockStore<int, kThreads, kItems, cub::BLOCK_STORE_TRANSPOSE>;
  using Scan = cub::BlockScan<int, kThreads>;
  __shared__ union {
    typename Load::TempStorage load;
    typename Store::TempStorage store;
    typename Scan::TempStorage scan;
  } storage;
  Running running{0};
  for (int tile = 0; tile < tiles; tile++) {
    int items[kItems], before[kItems], after[kItems], all;
    Load(storage.load).Load(in + tile * kAll, items);
    __syncthreads();
    Scan(storage.scan).ExclusiveSum(items, before, running);
    __syncthreads();
    Scan(storage.scan).InclusiveSum(items, after, all);
    __syncthreads();
    Store(storage.store).Store(exclusive + tile * kAll, before);
    __syncthreads();
    Store(storage.store).Store(inclusive + tile * kAll, after);
    if (threadIdx.x == 0) aggregate[tile] = all;
    __syncthreads();
  }
}

__global__ void scan_singles(const int* in, int* out) {
  using Scan = cub::BlockScan<int, kThreads>;
  __shared__ typename Scan::TempStorage storage;
  int before, largest, all;
  Scan(storage).ExclusiveSum(in[threadIdx.x], before, all);
  __syncthreads();
  auto more = [](int a, int b) { return a < b ? b : a; };
  Scan(storage).ExclusiveScan(in[threadIdx.x], largest, -5, more);
  out[threadIdx.x] = before;
  out[kThreads + threadIdx.x] = largest;
  out[2 * kThreads + threadIdx.x] = all;
}

__global__ void exchange_and_sort(const float* in, float* striped, float* sorted, int* from) {
  using Exchange = cub::BlockExchange<float, kThreads, kItems>;
  using Sort = cub::BlockRadixSort<float, kThreads, kItems, int>;
  __shared__ typename Exchange::TempStorage exchange;
  __shared__ typename Sort::TempStorage sort;
  float items[kItems], keys[kItems];
  int values[kItems];
  cub::LoadDirectBlocked(threadIdx.x, in, items);
  for (int i = 0; i < kItems; i++) {
    keys[i] = items[i];
    values[i] = threadIdx.x * kItems + i;
  }
  Exchange(exchange).BlockedToStriped(items);
  for (int i = 0; i < kItems; i++) striped[threadIdx.x * kItems + i] = items[i];
  Sort(sort).Sort(keys, values);
  for (int i = 0; i < kItems; i++) {
    sorted[threadIdx.x * kItems + i] = keys[i];
    from[threadIdx.x * kItems + i] = values[i];
  }
}

__global__ void warps(const int* in, int* sums, int* scans) {
  using Reduce = cub::WarpReduce<int>;
  using Scan = cub::WarpScan<int>;
  __shared__ typename Reduce::TempStorage reduce[kThreads / 32];
  __shared__ typename Scan::TempStorage scan[kThreads / 32];
  const int warp = threadIdx.x / 32;
  const int sum = Reduce(reduce[warp]).Sum(in[threadIdx.x]);
  if (threadIdx.x % 32 == 0) sums[warp] = sum;
  int before;
  Scan(scan[warp]).ExclusiveSum(in[threadIdx.x], before);
  scans[threadIdx.x] = before;
}

// More valid values than there are threads, lanes of a part of a warp included.
__global__ void reduce_too_many(const int* in, int* sums) {
  using Reduce = cub::BlockReduce<int, kThreads>;
  using Part = cub::WarpReduce<int, 8>;
  __shared__ typename Reduce::TempStorage block;
  __shared__ typename Part::TempStorage parts[kThreads / 8];
  const int all = Reduce(block).Sum(in[threadIdx.x], 100 * kThreads);
  const int part = Part(parts[threadIdx.x / 8]).Sum(in[threadIdx.x], 1000);
  if (threadIdx.x == 0) sums[0] = all;
  if (threadIdx.x % 8 == 0) sums[1 + threadIdx.x / 8] = part;
}

// Keys that are equal, as both zeros are, keep the order of their values.
__global__ void sort_zeros(const float* in, float* sorted, int* from, int* from_of_halves) {
  using Sort = cub::BlockRadixSort<float, kThreads, 1, int>;
  using SortHalves = cub::BlockRadixSort<__half, kThreads, 1, int>;
  __shared__ typename Sort::TempStorage first;
  __shared__ typename SortHalves::TempStorage second;
  float key[1] = {in[threadIdx.x]};
  __half half_key[1] = {__float2half(key[0])};
  int value[1] = {static_cast<int>(threadIdx.x)}, half_value[1] = {value[0]};
  Sort(first).Sort(key, value);
  SortHalves(second).SortDescendingBlockedToStriped(half_key, half_value);
  sorted[threadIdx.x] = key[0];
  from[threadIdx.x] = value[0];
  from_of_halves[threadIdx.x] = half_value[0];
}

#ifdef __CUDACC__
#include <algorithm>
#include <cmath>
#include <numeric>

#include "program.h"

static std::vector<int> numbers(int count, unsigned seed) {
  std::vector<int> values(count);
  for (int& value : values) value = static_cast<int>(next_random(&seed) % 200) - 50;
  return values;
}

static void reductions() {
  const int blocks = 5, valid = 77;
  const auto in = numbers(blocks * kThreads, 1);
  const int* device = upload(in);
  int* sums = upload(std::vector<int>(3 * blocks));
  float* largest = upload(std::vector<float>(blocks));
  reduce<<<blocks, kThreads>>>(device, sums, largest, valid);
  LAUNCHED();
  const auto got = download(sums, 3 * blocks);
  const auto most = download(largest, blocks);
  for (int b = 0; b < blocks; b++) {
    const auto first = in.begin() + b * kThreads;
    const int all = std::accumulate(first, first + kThreads, 0);
    EXPECT(got[3 * b] == all);
    EXPECT(got[3 * b + 1] == std::accumulate(first, first + valid, 0));
    EXPECT(got[3 * b + 2] == kItems * all + kThreads * (kItems * (kItems - 1) / 2));
    EXPECT(most[b] == *std::max_element(first, first + kThreads));
  }
}

static void scans() {
  const int tiles = 4;
  const auto in = numbers(tiles * kAll, 2);
  const std::vector<int> empty(in.size());
  int *device = upload(in), *exclusive = upload(empty), *inclusive = upload(empty),
      *aggregate = upload(std::vector<int>(tiles));
  scan<<<1, kThreads>>>(device, exclusive, inclusive, aggregate, tiles);
  LAUNCHED();
  const auto before = download(exclusive, in.size()), after = download(inclusive, in.size());
  const auto all = download(aggregate, tiles);
  int running = 0;
  for (int tile = 0; tile < tiles; tile++) {
    int in_tile = 0;
    for (int i = tile * kAll; i < (tile + 1) * kAll; i++) {
      EXPECT(before[i] == running);
      running += in[i];
      in_tile += in[i];
      EXPECT(after[i] == in_tile);
    }
    EXPECT(all[tile] == in_tile);
  }
  int* singles = upload(std::vector<int>(3 * kThreads));
  scan_singles<<<1, kThreads>>>(device, singles);
  LAUNCHED();
  const auto got = download(singles, 3 * kThreads);
  int sum = 0, most = -5;
  for (int i = 0; i < kThreads; i++) {
    EXPECT(got[i] == sum && got[kThreads + i] == most);
    sum += in[i];
    most = std::max(most, in[i]);
  }
  for (int i = 0; i < kThreads; i++) EXPECT(got[2 * kThreads + i] == sum);
}

static void exchanges() {
  std::vector<float> in(kAll);
  unsigned seed = 3;
  for (float& value : in) value = random_float(&seed) - 0.5f;
  float *device = upload(in), *striped = upload(in), *sorted = upload(in);
  int* from = upload(std::vector<int>(kAll));
  exchange_and_sort<<<1, kThreads>>>(device, striped, sorted, from);
  LAUNCHED();
  const auto stripes = download(striped, kAll), keys = download(sorted, kAll);
  const auto places = download(from, kAll);
  for (int t = 0; t < kThreads; t++) {
    for (int i = 0; i < kItems; i++) EXPECT(stripes[t * kItems + i] == in[t + i * kThreads]);
  }
  for (int i = 0; i < kAll; i++) {
    EXPECT(keys[i] == in[places[i]]);
    // Equal keys stay in their order.
    if (i > 0)
      EXPECT(keys[i - 1] < keys[i] || (keys[i - 1] == keys[i] && places[i - 1] < places[i]));
  }
}

static void of_warps() {
  const auto in = numbers(kThreads, 4);
  int *device = upload(in), *sums = upload(in), *scans = upload(in);
  warps<<<1, kThreads>>>(device, sums, scans);
  LAUNCHED();
  const auto got = download(sums, kThreads / 32), before = download(scans, kThreads);
  for (int warp = 0; warp < kThreads / 32; warp++) {
    int sum = 0;
    for (int i = 32 * warp; i < 32 * warp + 32; i++) {
      EXPECT(before[i] == sum);
      sum += in[i];
    }
    EXPECT(got[warp] == sum);
  }
}

static void too_many() {
  const auto in = numbers(kThreads, 5);
  int* sums = upload(std::vector<int>(1 + kThreads / 8));
  reduce_too_many<<<1, kThreads>>>(upload(in), sums);
  LAUNCHED();
  const auto got = download(sums, 1 + kThreads / 8);
  EXPECT(got[0] == std::accumulate(in.begin(), in.end(), 0));
  for (int part = 0; part < kThreads / 8; part++) {
    const auto first = in.begin() + 8 * part;
    EXPECT(got[1 + part] == std::accumulate(first, first + 8, 0));
  }
}

static void zeros() {
  std::vector<float> in(kThreads);
  for (int i = 0; i < kThreads; i++) in[i] = i % 3 == 0 ? 0.0f : i % 3 == 1 ? -0.0f : i % 7 - 3.0f;
  float* sorted = upload(in);
  int *from = upload(std::vector<int>(kThreads)), *halves = upload(std::vector<int>(kThreads));
  sort_zeros<<<1, kThreads>>>(upload(in), sorted, from, halves);
  LAUNCHED();
  std::vector<int> order(kThreads);
  std::iota(order.begin(), order.end(), 0);
  std::stable_sort(order.begin(), order.end(), [&](int a, int b) { return in[a] < in[b]; });
  EXPECT(download(from, kThreads) == order);
  const auto keys = download(sorted, kThreads);
  for (int i = 0; i < kThreads; i++) EXPECT(std::signbit(keys[i]) == std::signbit(in[order[i]]));
  std::iota(order.begin(), order.end(), 0);
  std::stable_sort(order.begin(), order.end(), [&](int a, int b) { return in[b] < in[a]; });
  EXPECT(download(halves, kThreads) == order);
}

int main() {
  reductions();
  too_many();
  zeros();
  scans();
  exchanges();
  of_warps();
  std::printf("blocks and warps of CUB: right\n");
  return 0;
}
#endif
