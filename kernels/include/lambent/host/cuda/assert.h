// assert() inside a kernel: prints the place and ends the launch with CUDA_ERROR_ASSERT. Found
// before the system's header, and like it, it may be included again with another NDEBUG.
#undef assert
#ifdef NDEBUG
#define assert(condition) static_cast<void>(0)
#else
#define assert(condition)       \
  (static_cast<bool>(condition) \
       ? static_cast<void>(0)   \
       : lambent::host::fail_assertion(#condition, __FILE__, __LINE__, __func__))
#endif
