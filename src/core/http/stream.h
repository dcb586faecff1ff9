// Stream: a connected socket as bytes in both directions, plain or encrypted. Connections of a
// server and clients stand on it and know neither kind. Its owner's thread.
#pragma once

#include <sys/uio.h>

#include <functional>
#include <memory>
#include <span>
#include <string>

#include "core/base/fd.h"
#include "core/base/result.h"
#include "core/http/message.h"

namespace lambent::http {

// What came of reading or writing.
struct Transfer {
  enum class Kind {
    kMoved,         // `bytes`, at least one
    kWaitsToRead,   // none: try again when the socket is readable
    kWaitsToWrite,  // none: try again when the socket is writable
    kEnd,           // the peer has ended its sending, in good order; of read and peek
    // The peer broke the protocol below HTTP and was told so; from now on read() drops what comes.
    kRefused,
    // The peer speaks HTTP without encryption here: write() sends plain text from now on, so that
    // it can be told, and read() drops what comes.
    kForeign,
    kFailed  // the connection is lost; failure() says why
  };
  Kind kind;
  size_t bytes = 0;
};

class Stream {
 public:
  virtual ~Stream() = default;

  // Non-blocking; stays the stream's.
  virtual int fd() const = 0;
  virtual Transfer read(std::span<char> into) = 0;
  // Whether read() would give something, which stays to be read.
  virtual Transfer peek() = 0;
  // Sends from the front of `parts`, which are not empty. What was not moved has to come again, at
  // the front of the next call.
  virtual Transfer write(std::span<const iovec> parts) = 0;
  // Tells the peer that nothing more is sent. False: to be called again when the socket is
  // writable.
  virtual bool finish_sending() = 0;
  // Whether there is input of whose coming the socket does not tell any more.
  virtual bool holds_input() const = 0;
  // Whether the two sides have agreed on how to talk: always, where nothing is to be agreed.
  virtual bool is_ready() const = 0;
  // What the peer has proved to be; null if it was not asked or did not answer.
  virtual const PeerCertificate* peer_certificate() const = 0;
  // Why a transfer was kRefused, kForeign or kFailed.
  virtual Error failure() const = 0;
};

// Bytes as they are. The socket is non-blocking.
std::unique_ptr<Stream> plain_stream(OwnedFd fd);

// Encrypts an accepted connection; null if there is no memory for it.
using StreamFactory = std::function<std::unique_ptr<Stream>(OwnedFd)>;
// Encrypts a connection to `host`, a name or an address without brackets, whose certificate has to
// say that it is that host's. Its users' threads.
using SecureConnector =
    std::function<Result<std::unique_ptr<Stream>>(OwnedFd fd, const std::string& host)>;

}  // namespace lambent::http
