/* A libnvJitLink without any function. Programs that look for nvJitLink and find this one (numba-cuda,
 * cuda.core) take it for one that is too old, and link by the driver: see docs/guides/emulator.md. */
typedef int lambent_no_linker;
