// Zygotes: those of one lambent-launcher, by their keys: starts, watches, retires and forgets them.
// Part of Server, single-threaded.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <set>
#include <string>
#include <vector>

#include "core/base/time.h"
#include "node/sandbox/cgroup.h"
#include "node/sandbox/init.h"
#include "node/sandbox/message.h"

namespace lambent::sandbox {

// Names a zygote, or a box of Server: they share their numbers.
using BoxNumber = uint64_t;

class Zygotes {
 public:
  // What it uses; all outlive it.
  struct Dependencies {
    const Clock& clock;
    CgroupTree& cgroups;
    const Confinement& confinement;
    std::function<void(const InitProcess&, BoxNumber)> watch;
    std::function<void(ZygoteNews)> tell;
    // A box's init runs (an invalid descriptor: it could not be made).
    std::function<void(BoxNumber, OwnedFd pidfd)> on_box;
  };

  // `most`: at one time; 0: none is ever started.
  Zygotes(Dependencies uses, unsigned most) : uses_(std::move(uses)), most_(most) {}

  // The zygote that sandboxes of this plan are forked from now; 0: there is none.
  BoxNumber serving(const LaunchPlan& plan) const;
  // A sandbox of this plan is wanted: uses its zygote, or starts one if it may be.
  void want(const LaunchPlan& plan, BoxNumber number);
  // Has the init of a sandbox made below it; `control` is the far end. on_box follows.
  Result<void> order_box(BoxNumber zygote, BoxNumber box, const Channel& control,
                         const SandboxCgroup& cgroup);
  // A box of it is gone.
  void box_ended(BoxNumber zygote);
  // No sandbox is forked from it any more. Those that were live on.
  void fail(BoxNumber zygote, const std::string& why);

  bool has(BoxNumber number) const { return zygotes_.contains(number); }
  void hear(BoxNumber number);
  // Its root is gone, and with it its boxes.
  void bury(BoxNumber number);
  // What is due by time. Zygotes that serve no more and have no box left go.
  void tend();
  // The longest wait until tend() is due again; none: it is not.
  std::optional<Duration> patience() const;
  std::vector<int> pidfds() const;
  // Those that serve, for boxes that stand ready.
  std::vector<BoxNumber> all_serving() const;

 private:
  enum class Stage { kLoading, kServing, kOver };
  struct Zygote {
    std::string key;
    Stage stage = Stage::kLoading;
    InitProcess process;
    SandboxCgroup cgroup;
    Instant started{};
    Instant used{};
    size_t boxes = 0;
    bool gives_way = false;  // while it loads, for some time, to what works
  };

  bool make_place();
  Result<void> start(const LaunchPlan& plan, BoxNumber number);
  void retire(Zygote& zygote);
  static void end_giving_way(Zygote& zygote);

  const Dependencies uses_;
  const unsigned most_;
  std::map<BoxNumber, Zygote> zygotes_;
  std::map<std::string, BoxNumber> by_key_;  // those that load or serve
  std::map<std::string, Instant> barred_;    // keys of those that failed, until when
};

}  // namespace lambent::sandbox
