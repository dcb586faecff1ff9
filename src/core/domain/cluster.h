// Cluster: the nodes that serve together, as a file or an agent of Ray tells of them and
// the nodes themselves say. One narrow interface: node/cluster implements it, the frontend shows
// and changes it, tests fake it. All calls and callbacks happen on the loop thread.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "core/base/result.h"
#include "core/base/time.h"
#include "core/base/units.h"

namespace lambent {

struct GpuFacts {
  std::string name;
  Bytes memory;

  bool operator==(const GpuFacts&) const = default;
};

// A node as one is told of it.
struct ClusterMember {
  std::string node;     // its name, which others must not have: letters, digits, '-', '_' and '.'
  std::string address;  // "http://10.0.0.2:8980"
  std::vector<GpuFacts> gpus = {};

  bool operator==(const ClusterMember&) const = default;
};

// What one who tells of members says: all that it knows, in place of what it said before.
struct ClusterTold {
  std::string source;  // who tells: "file", "ray"
  std::string home;    // the node that has the catalog; empty: the first of the members
  std::vector<ClusterMember> members;
  // For so long, unless it is said again. A member whose lease ran out is still one while it
  // answers, so that the loss of the teller changes nothing. None: for ever.
  std::optional<Duration> lease;
};

enum class MemberState {
  kUnknown,  // it has not answered yet
  kUp,
  kDraining,  // it takes no more work
  kLost,      // it did not answer lately
};
std::string_view name_of(MemberState state);

struct MemberStatus {
  ClusterMember member;
  MemberState state = MemberState::kUnknown;
  bool is_self = false;
  bool is_home = false;
  std::string source;
  std::string problem;  // what was wrong with its last answer, for people; empty: nothing
  // As it last said.
  std::string version;  // of its program
  std::vector<GpuFacts> gpus;
  uint64_t slots = 0;
  uint64_t load = 0;
  Bytes memory_free;
  uint64_t warm_functions = 0;
};

struct ClusterCounts {
  uint64_t here = 0;       // requests that this node answered although others could have
  uint64_t forwarded = 0;  // and those that it gave to others
  uint64_t received = 0;   // that others gave to it
  uint64_t retried = 0;    // given to another node because one was lost
  uint64_t lost = 0;       // that ended with a node that was lost
};

class Cluster {
 public:
  virtual ~Cluster() = default;
  // INVALID_ARGUMENT: a name or an address is none, or is there twice; the home is no member.
  // FAILED_PRECONDITION: another source tells of other members under the same names.
  virtual Result<void> tell(ClusterTold told) = 0;
  // Gives a node no more work, or work again; what it has goes on, and it forwards what its clients
  // send. Until it is restarted. NOT_FOUND: there is no such node; UNAVAILABLE: it does not answer.
  virtual void drain(const std::string& node, bool drained,
                     std::function<void(Result<void>)> done) = 0;
  virtual std::vector<MemberStatus> members() const = 0;
  virtual std::string self() const = 0;
  virtual std::string home() const = 0;  // empty: there are no others
  // Changes whenever members, the home or a state do.
  virtual uint64_t version() const = 0;
  virtual ClusterCounts counts() const = 0;
  // Called in a later turn after each such change.
  virtual void watch(std::function<void()> changed) = 0;
};

}  // namespace lambent
