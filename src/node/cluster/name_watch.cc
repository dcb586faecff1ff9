#include "node/cluster/name_watch.h"

#include <utility>

#include "core/crypto/crypto.h"

namespace lambent::cluster {
namespace {

constexpr unsigned kPeriodsOfLook = 10;
constexpr size_t kLifeBytes = 8;

}  // namespace

NameWatch::NameWatch(std::string self)
    : self_(std::move(self)), life_(crypto::to_hex(crypto::random_bytes(kLifeBytes))) {}

bool NameWatch::is_due() {
  const unsigned period = periods_++;
  return period < kPeriodsOfLook || period % kPeriodsOfLook == 0;
}

bool NameWatch::heard(const NodeReport& report, const std::string& address) {
  std::string problem;
  if (report.life != life_ && report.node == self_) {
    problem = "another worker is called '" + self_ + "' and answers at " + address +
              ", where all nodes look for that name; start this one with another --node-name, "
              "which the nodes are told of";
  } else if (report.life != life_) {
    problem = "node '" + report.node + "' answers at " + address + ", the address of this node, '" +
              self_ + "': mend --cluster-node";
  }
  if (problem == problem_) return false;
  problem_ = std::move(problem);
  return true;
}

}  // namespace lambent::cluster
