// Two processes work on one device's memory in turn: handles of memory and events, and a pool that
// is exported as a descriptor. The program starts itself a second time.
__global__ void add_to_all(int* values, int count, int what) {
  const int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < count) values[i] += what;
}

#ifdef __CUDACC__
#include <fcntl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstring>

#include "program.h"

static const int count = 50'000, blocks = (count + 255) / 256;
static const size_t bytes = count * sizeof(int);

// What the parent gives to the child, but for the pool's descriptor, which is inherited.
struct Gift {
  cudaIpcMemHandle_t memory;
  cudaIpcEventHandle_t filled, added;
  cudaMemPoolPtrExportData in_pool;
  int pool;
};

static int child() {
  Gift gift;
  EXPECT(read(0, &gift, sizeof gift) == sizeof gift);
  int* values = nullptr;
  OK(cudaIpcOpenMemHandle(reinterpret_cast<void**>(&values), gift.memory,
                          cudaIpcMemLazyEnablePeerAccess));
  cudaEvent_t filled, added;
  OK(cudaIpcOpenEventHandle(&filled, gift.filled));
  OK(cudaIpcOpenEventHandle(&added, gift.added));
  cudaStream_t stream;
  OK(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking));
  OK(cudaStreamWaitEvent(stream, filled, 0));
  add_to_all<<<blocks, 256, 0, stream>>>(values, count, 5);
  LAUNCHED();

  cudaMemPool_t pool;
  OK(cudaMemPoolImportFromShareableHandle(&pool,
                                          reinterpret_cast<void*>(static_cast<intptr_t>(gift.pool)),
                                          cudaMemHandleTypePosixFileDescriptor, 0));
  int* of_pool = nullptr;
  OK(cudaMemPoolImportPointer(reinterpret_cast<void**>(&of_pool), pool, &gift.in_pool));
  add_to_all<<<blocks, 256, 0, stream>>>(of_pool, count, 7);
  LAUNCHED();
  OK(cudaEventRecord(added, stream));
  EXPECT(write(1, "r", 1) == 1);  // recorded, perhaps not reached
  OK(cudaStreamSynchronize(stream));
  OK(cudaFree(of_pool));
  OK(cudaMemPoolDestroy(pool));
  OK(cudaIpcCloseMemHandle(values));
  OK(cudaEventDestroy(filled));
  OK(cudaEventDestroy(added));
  OK(cudaStreamDestroy(stream));
  char byte;
  return read(0, &byte, 1) == 0 ? 0 : 1;
}

static int to_child = -1, from_child = -1;

static pid_t start_child() {
  int in[2], out[2];
  EXPECT(pipe2(in, O_CLOEXEC) == 0);
  EXPECT(pipe2(out, O_CLOEXEC) == 0);
  const pid_t pid = fork();
  if (pid == 0) {
    dup2(in[0], 0);
    dup2(out[1], 1);
    execl("/proc/self/exe", "interprocess", "child", nullptr);
    _exit(127);
  }
  to_child = in[1];
  from_child = out[0];
  close(in[0]);
  close(out[1]);
  return pid;
}

int main(int arguments, char**) {
  if (arguments > 1) return child();
  Gift gift{};
  int* values = nullptr;
  OK(cudaMalloc(&values, bytes));
  OK(cudaMemset(values, 0, bytes));
  OK(cudaIpcGetMemHandle(&gift.memory, values));

  cudaEvent_t filled, added, wrong;
  EXPECT(cudaEventCreateWithFlags(&wrong, cudaEventInterprocess) == cudaErrorInvalidValue);
  OK(cudaEventCreateWithFlags(&wrong, cudaEventDisableTiming));
  EXPECT(cudaIpcGetEventHandle(&gift.filled, wrong) == cudaErrorInvalidResourceHandle);
  EXPECT(cudaGetLastError() == cudaErrorInvalidResourceHandle);
  const unsigned shared = cudaEventInterprocess | cudaEventDisableTiming;
  OK(cudaEventCreateWithFlags(&filled, shared));
  OK(cudaEventCreateWithFlags(&added, shared));
  OK(cudaIpcGetEventHandle(&gift.filled, filled));
  OK(cudaIpcGetEventHandle(&gift.added, added));

  cudaMemPoolProps properties{};
  properties.allocType = cudaMemAllocationTypePinned;
  properties.handleTypes = cudaMemHandleTypePosixFileDescriptor;
  properties.location = {cudaMemLocationTypeDevice, 0};
  cudaMemPool_t pool;
  OK(cudaMemPoolCreate(&pool, &properties));
  OK(cudaMemPoolExportToShareableHandle(&gift.pool, pool, cudaMemHandleTypePosixFileDescriptor, 0));
  fcntl(gift.pool, F_SETFD, 0);  // the child inherits it
  int* of_pool = nullptr;
  cudaStream_t stream;
  OK(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking));
  OK(cudaMallocFromPoolAsync(&of_pool, bytes, pool, stream));
  OK(cudaMemPoolExportPointer(&gift.in_pool, of_pool));
  const pid_t pid = start_child();
  add_to_all<<<blocks, 256, 0, stream>>>(values, count, 1);
  LAUNCHED();
  OK(cudaMemsetAsync(of_pool, 0, bytes, stream));
  OK(cudaEventRecord(filled, stream));
  EXPECT(write(to_child, &gift, sizeof gift) == sizeof gift);
  close(gift.pool);

  char byte = 0;
  EXPECT(read(from_child, &byte, 1) == 1 && byte == 'r');
  OK(cudaStreamWaitEvent(stream, added, 0));
  add_to_all<<<blocks, 256, 0, stream>>>(values, count, 10);
  LAUNCHED();
  std::vector<int> found(count), found_in_pool(count);
  OK(cudaMemcpyAsync(found.data(), values, bytes, cudaMemcpyDeviceToHost, stream));
  OK(cudaMemcpyAsync(found_in_pool.data(), of_pool, bytes, cudaMemcpyDeviceToHost, stream));
  OK(cudaStreamSynchronize(stream));
  OK(cudaEventSynchronize(added));
  for (int value : found) EXPECT(value == 16);
  for (int value : found_in_pool) EXPECT(value == 7);
  close(to_child);
  int status = -1;
  EXPECT(waitpid(pid, &status, 0) == pid && status == 0);
  OK(cudaFreeAsync(of_pool, stream));
  OK(cudaStreamSynchronize(stream));
  OK(cudaMemPoolDestroy(pool));
  OK(cudaFree(values));
  OK(cudaEventDestroy(filled));
  OK(cudaEventDestroy(added));
  std::puts("ok");
}
#endif
