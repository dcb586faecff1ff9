// ListeningSockets: the worker's listeners. One that was open before the process began is taken
// over: from systemd, by its protocol (LISTEN_FDS), or from the worker that this one replaces. Used
// by the worker's main.
#pragma once

#include <sys/types.h>

#include <cstddef>
#include <functional>
#include <string>
#include <vector>

#include "core/base/fd.h"
#include "core/base/result.h"
#include "core/http/authority.h"

namespace lambent {

class ListeningSockets {
 public:
  struct Variables {
    const char* pid = nullptr;    // LISTEN_PID; null: not set
    const char* count = nullptr;  // LISTEN_FDS
    // LAMBENT_LISTENERS, a line for each: the address that the worker before this one listened at.
    // A Unix socket that was made by a short name of its folder does not know its path.
    const char* addresses = nullptr;
  };

  // For this process, `self`. `first` is the first descriptor (3 by the protocol). INVALID_ARGUMENT
  // if they make no sense, or a descriptor is no listening socket.
  static Result<ListeningSockets> inherit(const Variables& variables, pid_t self, int first = 3);

  // A copy of the listener at this address: inherited, or new. Port 0 is any port.
  Result<OwnedFd> tcp(const http::Authority& address);
  // The same for a Unix socket; `open` makes a new one.
  Result<OwnedFd> unix_socket(const std::string& path,
                              const std::function<Result<OwnedFd>()>& open);
  // After all were asked for: INVALID_ARGUMENT, with its address, if an inherited one is left,
  // for clients that connect to it would wait for ever.
  Result<void> check_all_taken() const;

  size_t count() const { return kept_.size(); }

  // No program comes after this one: clients are refused once the copies are closed too. Those that
  // connect over TCP before that wait, so that none is accepted by the system and cut off.
  void close();

  // For the program that this process becomes by exec: puts all listeners at the descriptors from
  // `first` on, open there, and sets the variables. What else is at these descriptors is
  // closed, so nothing may be done after it but exec.
  Result<void> hand_over(int first = 3);

 private:
  struct Socket {
    std::string address;  // a path, or ADDRESS:PORT
    OwnedFd fd;           // invalid once it was taken
    bool is_new = false;  // this process made it, so that no other has it
  };

  // Keeps `listener`, returns a copy for those who use it.
  Result<OwnedFd> keep(std::string address, OwnedFd listener, bool is_new);

  std::vector<Socket> inherited_;
  std::vector<Socket> kept_;
};

}  // namespace lambent
