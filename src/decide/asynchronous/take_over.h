// TakeOver: of which functions a node takes over what lost nodes had, told by who could run them.
// What none can run now stays with the lost node, so that it takes no place of what can. A state
// machine, and pure functions; used by bin/node_shared_catalog on the loop thread.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

namespace lambent::asynchronous {

// Their names.
using TenantFunction = std::pair<std::string, std::string>;

// This node's copy of a function.
enum class Copy {
  kHere,
  kComing,  // the cluster has the function, and this node is still copying it, or could not
  kNone,    // nothing is known of it
};

// Of an invocation that was taken over, or that another node gave: which node has it next. This
// one runs it, or refuses it for good if no node ever could. To another it is given, which runs it.
// Nothing: it waits, and is looked at again. `taker`: as routing::taker_of() says, of a function
// that is here.
std::optional<std::string> next_of(Copy copy, const std::optional<std::string>& taker,
                                   const std::string& self);

// What would become of an invocation that was taken over.
enum class Prospect {
  kRuns,     // here or at another node; or is refused, since no node ever could
  kWaits,    // for nodes that could run it, and do not answer
  kUnknown,  // this node does not know the function, perhaps not yet
};

Prospect prospect_of(Copy copy, const std::optional<std::string>& taker);

class TakeOver {
 public:
  // A function that stays unknown for so many looks is taken to be removed.
  static constexpr unsigned kMostLooks = 30;

  // The next look is at the functions behind this one; empty names: from the first one on.
  const TenantFunction& after() const { return after_; }
  // Those of them whose invocations are taken over now. `functions`: at most `most`, fewer if there
  // are no more of them; the next look begins behind the last one, or with the first again. So
  // each has its turn, however many invocations another has.
  std::vector<TenantFunction> choose(const std::vector<TenantFunction>& functions, size_t most,
                                     const std::function<Prospect(const TenantFunction&)>& of);

 private:
  struct Unknown {
    unsigned looks = 0;
    uint64_t round = 0;  // in which it was last seen
  };

  TenantFunction after_;
  std::map<TenantFunction, Unknown> unknown_;
  uint64_t round_ = 0;  // from the first function to the last
};

}  // namespace lambent::asynchronous
