// NameWatch: whether another process has this node's name. It has if it answers at the address
// where all nodes look for that name. A state machine; owned by ClusterNode.
#pragma once

#include <string>

#include "node/cluster/node_report.h"

namespace lambent::cluster {

class NameWatch {
 public:
  explicit NameWatch(std::string self);

  // Of this process: no other says the same in its report.
  const std::string& life() const { return life_; }
  // Once in each period; whether to ask now at this node's own address. Often at first.
  bool is_due();
  // What answered there. True: that changed what problem() says.
  bool heard(const NodeReport& report, const std::string& address);
  // Why this node has to change nothing, for people; empty: it has its name for itself, or nothing
  // else is known.
  const std::string& problem() const { return problem_; }

 private:
  const std::string self_;
  const std::string life_;
  unsigned periods_ = 0;
  std::string problem_;
};

}  // namespace lambent::cluster
