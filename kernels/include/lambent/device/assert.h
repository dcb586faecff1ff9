// assert() for NVRTC, which has no such header of its own. Found before the system's, and like it,
// it may be included again with another NDEBUG.
#undef assert
#ifdef NDEBUG
#define assert(condition) static_cast<void>(0)
#else
extern "C" __device__ void __assertfail(const char* condition, const char* file, unsigned line,
                                        const char* function, size_t character_bytes);
#define assert(condition)       \
  (static_cast<bool>(condition) \
       ? static_cast<void>(0)   \
       : __assertfail(#condition, __FILE__, __LINE__, __func__, sizeof(char)))
#endif
