// FunctionRegistry: the functions of this worker and their versions, which are functions of their
// own (core/domain/version.h), by id and by name, as they were last acknowledged. Pure; used by the
// worker on the loop thread.
#pragma once

#include <map>
#include <optional>
#include <set>
#include <string>
#include <unordered_map>
#include <vector>

#include "core/domain/function.h"
#include "core/domain/invocation_service.h"
#include "node/worker/code_counts.h"

namespace lambent::worker {

class FunctionRegistry {
 public:
  // `renews_sandboxes`: those of before do not serve it, whatever the specs say.
  void put(FunctionSpec spec, bool renews_sandboxes = false);
  void remove(const FunctionName& name);

  const FunctionSpec* find(const FunctionName& name) const;
  const FunctionSpec* find(FunctionId id) const;
  // The oldest revision whose sandboxes serve the current one; 0 if there is no such function.
  uint64_t sandbox_revision(FunctionId id) const;
  // NOT_FOUND, as long as there are not too many with the closest existing name as a suggestion.
  Result<const FunctionSpec*> get(const FunctionName& name) const;
  // Without versions and kept graphs.
  std::vector<FunctionSpec> list(TenantId tenant, const std::string& after, size_t limit) const;
  // The same without copies; they are good until the next change.
  std::vector<const FunctionSpec*> page(TenantId tenant, const std::string& after,
                                        size_t limit) const;
  // The records of its versions, in order of their numbers.
  std::vector<const FunctionSpec*> versions(const FunctionName& function) const;
  // The function whose account of service a version is charged to; zero: it has one of its own.
  FunctionId account_of(const FunctionName& name) const;
  // Kept up to date by every change: nothing is added up.
  FunctionTotals totals(TenantId tenant) const;
  // Those that are to have some sandboxes ready; never more than there may be sandboxes.
  std::vector<FunctionSpec> with_instances() const;
  // All, versions and kept graphs included, in order of tenant and name.
  template <typename Visit>
  void for_each(Visit visit) const {
    for (const auto& [name, spec] : by_name_) visit(spec);
  }
  template <typename Test>
  bool any_of(Test test) const {
    for (const auto& [name, spec] : by_name_) {
      if (test(spec)) return true;
    }
    return false;
  }
  size_t size() const { return by_name_.size(); }
  // Another number after each change of any of them.
  uint64_t changes() const { return changes_; }
  CodeCounts& codes() { return codes_; }
  const CodeCounts& codes() const { return codes_; }

  // One change at a time per name: false if another is under way.
  bool begin_change(const FunctionName& name) { return changing_.insert(name).second; }
  void end_change(const FunctionName& name) { changing_.erase(name); }
  bool is_changing(const FunctionName& name) const { return changing_.contains(name); }
  bool changing() const { return !changing_.empty(); }

 private:
  // Of a function with its versions.
  FunctionTotals totals_with_versions(const FunctionName& function) const;
  // Before and after a change of the function or of one of its versions.
  void leave_totals(const FunctionName& function);
  void enter_totals(const FunctionName& function);

  std::map<FunctionName, FunctionSpec> by_name_;
  std::unordered_map<TenantId, FunctionTotals> totals_;
  std::set<FunctionName> with_instances_;
  CodeCounts codes_;
  std::unordered_map<FunctionId, const FunctionSpec*> by_id_;  // of by_name_, where they stay
  std::unordered_map<FunctionId, uint64_t> sandbox_revisions_;
  std::set<FunctionName> changing_;
  uint64_t changes_ = 0;
};

}  // namespace lambent::worker
