#include "core/tls/socket_bio.h"

#include <sys/socket.h>

#include <cerrno>
#include <cstdint>

namespace lambent::tls {
namespace {

int socket_of(BIO* bio) { return static_cast<int>(reinterpret_cast<intptr_t>(BIO_get_data(bio))); }

int read_socket(BIO* bio, char* into, int size) {
  BIO_clear_retry_flags(bio);
  const ssize_t got = recv(socket_of(bio), into, static_cast<size_t>(size), 0);
  if (got < 0 && would_block()) BIO_set_retry_read(bio);
  return static_cast<int>(got);
}

int write_socket(BIO* bio, const char* from, int size) {
  BIO_clear_retry_flags(bio);
  const ssize_t sent = send(socket_of(bio), from, static_cast<size_t>(size), MSG_NOSIGNAL);
  if (sent < 0 && would_block()) BIO_set_retry_write(bio);
  return static_cast<int>(sent);
}

long control(BIO*, int command, long, void*) { return command == BIO_CTRL_FLUSH ? 1 : 0; }

BIO_METHOD* make_method() {
  BIO_METHOD* method = BIO_meth_new(BIO_get_new_index() | BIO_TYPE_SOURCE_SINK, "socket");
  if (method == nullptr) return nullptr;
  BIO_meth_set_read(method, read_socket);
  BIO_meth_set_write(method, write_socket);
  BIO_meth_set_ctrl(method, control);
  return method;
}

}  // namespace

bool would_block() { return errno == EAGAIN || errno == EWOULDBLOCK || errno == EINTR; }

OwnedBio socket_bio(int fd) {
  // A table of functions, which every stream of the process uses and which never changes.
  static BIO_METHOD* const method = make_method();
  if (method == nullptr) return nullptr;
  OwnedBio bio(BIO_new(method));
  if (bio == nullptr) return nullptr;
  BIO_set_data(bio.get(), reinterpret_cast<void*>(static_cast<intptr_t>(fd)));
  BIO_set_init(bio.get(), 1);
  return bio;
}

}  // namespace lambent::tls
