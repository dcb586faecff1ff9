/* The contract between a kernel compiled for the host and the emulated driver that runs it. Plain
 * C.
 *
 * A host module is an ELF shared object given to cuModuleLoadData or cuLibraryLoadData. For every
 * __global__ function it exports one data symbol `emulated_kernel_<lowered name>` of type
 * struct emulated_kernel, <lowered name> being the name cuModuleGetFunction is asked for (the C
 * name of an extern "C" kernel, the Itanium-mangled name otherwise). Variables marked __device__
 * are exported under their own names. The module may leave undefined only symbols of libc, libm and
 * libstdc++.
 */
#ifndef LAMBENT_CUDA_ABI_EMULATED_KERNEL_H
#define LAMBENT_CUDA_ABI_EMULATED_KERNEL_H

#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif
#define EMULATED_KERNEL_ABI_VERSION 2u
#define EMULATED_KERNEL_ABI_LAUNCHES 3u /* of a kernel that may call launch_child */
#define EMULATED_KERNEL_SYMBOL_PREFIX "emulated_kernel_"

struct emulated_dim3 {
  uint32_t x, y, z;
};

struct emulated_kernel;

/* One launch, the same for all of its blocks. */
struct emulated_launch {
  struct emulated_dim3 grid;
  struct emulated_dim3 block;
  uint32_t dynamic_shared_bytes;

  /* Cooperative launches; NULL otherwise. Blocks until every block of the grid has called it. Each
   * block then has a thread of its own, and its run_block calls this once for each grid barrier,
   * after all threads of the block have arrived. */
  void (*wait_for_grid)(void* grid_barrier);
  void* grid_barrier;

  /* Ends the launch with a CUresult (a trap, a failed assertion) and does not return: code that
   * sets it leaves run_block by a jump; the thread may then run other blocks. NULL: the kernel ends
   * the process. */
  void (*fail)(const struct emulated_launch* launch, int result);

  /* A block of this launch launches `kernel`, which runs once all blocks of this one have ended;
   * those that say `is_tail` behind all others and what they launched. Of `shape` only the sizes
   * count; the parameters are copied. Returns a CUresult; for any thread. NULL: not supported. */
  int (*launch_child)(const struct emulated_launch* launch, const struct emulated_kernel* kernel,
                      const struct emulated_launch* shape, void** parameters, int is_tail);
  void* children;
};

/* A conditional handle of a graph (CUgraphConditionalHandle, a cudaGraphConditionalHandle in a
 * kernel) is the address of the 32-bit value that it stands for: a kernel sets it with a store. */

struct emulated_kernel {
  uint16_t abi_version; /* EMULATED_KERNEL_ABI_VERSION, or that of launches */
  /* Of the PTX that it was made of, 75 for compute_75; 0: of none, and as the device has it. */
  uint16_t ptx_version;
  uint32_t parameter_count;
  const uint32_t* parameter_sizes; /* bytes of each parameter, in order */
  const uint32_t* parameter_alignments;
  uint32_t static_shared_bytes;
  uint32_t max_threads_per_block;
  uint32_t registers_per_thread; /* a stated guess: it feeds occupancy queries only */

  /* Runs one block to its end on the calling thread; called concurrently for different blocks from
   * different threads. parameters[i] points at parameter i. */
  void (*run_block)(const struct emulated_launch* launch, struct emulated_dim3 block_index,
                    void** parameters);

  /* The modelled duration of the whole launch by itself on the device, in nanoseconds; NULL: the
   * driver's own model (from the number of blocks and threads) is used. */
  uint64_t (*duration_ns)(const struct emulated_launch* launch, void** parameters);
};

#ifdef __cplusplus
}
#endif
#endif
