// Compiled with a default stream for each thread: threads that know nothing of streams do not order
// each other's work, and find their own.
__global__ void add_one(int* values, int count) {
  const int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < count) values[i] += 1;
}

#ifdef __CUDACC__
#include <condition_variable>
#include <mutex>
#include <thread>

#include "program.h"

static std::mutex mutex;
static std::condition_variable changed;
static bool open_gate = false;

static void wait_at_gate(void*) {
  std::unique_lock<std::mutex> lock(mutex);
  changed.wait(lock, [] { return open_gate; });
}

// Returns its memory: to free it waits for the whole device, and the gate is still shut.
static void work(int rounds, int** memory) {
  const int count = 2000;
  std::vector<int> values(count, 1);
  int* device = *memory = upload(values);
  for (int round = 0; round < rounds; ++round) {
    add_one<<<(count + 127) / 128, 128>>>(device, count);
    LAUNCHED();
  }
  for (int value : download(device, count)) EXPECT(value == 1 + rounds);
}

int main() {
  // This thread's default stream is shut; the others get all their work done nevertheless.
  OK(cudaLaunchHostFunc(nullptr, wait_at_gate, nullptr));
  std::vector<std::thread> threads;
  int* memory[4] = {};
  for (int i = 0; i < 4; ++i) threads.emplace_back(work, i + 1, &memory[i]);
  for (auto& thread : threads) thread.join();
  EXPECT(cudaStreamQuery(nullptr) == cudaErrorNotReady);
  EXPECT(cudaStreamQuery(cudaStreamPerThread) == cudaErrorNotReady);
  {
    std::lock_guard<std::mutex> lock(mutex);
    open_gate = true;
  }
  changed.notify_all();
  OK(cudaStreamSynchronize(nullptr));
  for (int* each : memory) OK(cudaFree(each));
  std::puts("ok");
}
#endif
