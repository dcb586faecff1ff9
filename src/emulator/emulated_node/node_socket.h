// A node that a worker keeps: a socket hands out its files, so that processes can write into the
// node but not change its size, and always know how it was made. Used by Node, any thread.
//
// Who connects (SOCK_SEQPACKET) is sent one message of one byte with two descriptors: of the node,
// opened for this process only, because its locks are those of an open file; and of what the node
// was when it was made, which cannot be written. Both files are sealed.
#pragma once

#include <string>

namespace lambent::emulated_node {

struct NodeDescriptors {
  int live = -1;
  int pristine = -1;
};

// None, and why in `error`, if the socket is not answered within seconds. The caller closes them.
NodeDescriptors receive_node(const std::string& path, std::string* error);

}  // namespace lambent::emulated_node
