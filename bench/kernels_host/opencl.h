// The part of OpenCL that the benchmark needs, from whatever implementation is installed. Used by
// kernels_host_bench on its only thread.
#pragma once

#include <cstddef>
#include <string>
#include <vector>

namespace lambent::bench {

// One device, one queue, one program. Functions that fail end the program with a message: a
// benchmark has nothing better to do.
class OpenCl {
 public:
  struct Buffer {
    void* handle;
    size_t bytes;
  };

  // False, with the reason, if there is no OpenCL device here.
  bool open(std::string* why_not);
  std::string device() const { return device_name_; }

  void build(const std::string& source);
  Buffer buffer(size_t bytes, const void* contents);
  std::vector<char> read(const Buffer& buffer);

  // Enqueues the kernel and waits for its end.
  struct Argument {
    const void* value;
    size_t bytes;
  };
  void run(const std::string& kernel, const std::vector<Argument>& arguments,
           const size_t (&global)[2], const size_t (&local)[2]);

 private:
  void check(int result, const char* what);

  void* library_ = nullptr;
  void* device_ = nullptr;
  void* context_ = nullptr;
  void* queue_ = nullptr;
  void* program_ = nullptr;
  std::string device_name_;
};

}  // namespace lambent::bench
