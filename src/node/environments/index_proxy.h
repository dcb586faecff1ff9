// IndexProxy: the process through which a confined program reaches the index of packages, and
// nothing else. The program has a network of its own with only a loopback, where this listens and
// whence it takes connections; it makes those to the index from the host's network. Made by
// run_confined().
#pragma once

#include <sys/types.h>

#include <string>
#include <vector>

#include "core/base/fd.h"
#include "core/base/result.h"

namespace lambent::environments {

// What the program is told in HTTP_PROXY and its like.
inline constexpr char kIndexProxyUrl[] = "http://127.0.0.1:3128";

class IndexProxy {
 public:
  // `places`: what it leads to, as ProxyRequest::place() writes them. `change_user`: it becomes
  // another user than root.
  static Result<IndexProxy> start(const std::vector<std::string>& places, bool change_user);
  // It ends.
  ~IndexProxy();
  IndexProxy(IndexProxy&& other) noexcept;
  IndexProxy& operator=(IndexProxy&&) = delete;

  // In the process that is to be confined, once it is in its own network: listens there, and gives
  // the listener away.
  Result<void> listen_inside() const;
  // Places that the program asked for and did not get; the first of them.
  std::vector<std::string> refused() const;

 private:
  IndexProxy(pid_t pid, OwnedFd channel) : pid_(pid), channel_(std::move(channel)) {}

  pid_t pid_ = -1;
  OwnedFd channel_;
};

}  // namespace lambent::environments
