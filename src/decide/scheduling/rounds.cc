#include "decide/scheduling/rounds.h"

namespace lambent::scheduling {

Duration Rounds::turn_of(const Flow& flow, Duration takes) const {
  if (flow.pending == 0) return Duration(0);
  const Duration set_up = std::min(flow.cold_start.mean_or(over_run_ / 20), over_run_);
  // As many as T holds, so that no product is too large.
  const Duration each = std::max(takes, Duration(1));
  const int64_t most = over_run_ / each + 1;
  return std::min(set_up + std::min<int64_t>(flow.pending, most) * each, over_run_);
}

void Rounds::count(FunctionId function, const Flow& flow, Duration takes, uint32_t tenant) {
  if (!follows_) return;
  if (function.value >= turns_.size()) turns_.resize(function.value + 1);
  if (tenant >= rounds_.size()) rounds_.resize(tenant + 1);
  Turn& turn = turns_[function.value];
  if (turn.length > Duration(0)) rounds_[turn.tenant] -= turn.length;
  turn = {turn_of(flow, takes), tenant};
  rounds_[tenant] += turn.length;
}

void Rounds::archive(StateArchive& archive, size_t flows) {
  if (!follows_) return;
  archive.list(turns_, [&](Turn& turn) {
    archive.field(turn.length);
    archive.expect(turn.length >= Duration(0) && turn.length <= over_run_);
  });
  archive.expect(turns_.size() <= flows);
}

void Rounds::find_again(const std::vector<uint32_t>& tenants) {
  rounds_.clear();
  for (size_t i = 0; i < turns_.size(); ++i) {
    turns_[i].tenant = tenants[i];
    if (tenants[i] >= rounds_.size()) rounds_.resize(tenants[i] + 1);
    rounds_[tenants[i]] += turns_[i].length;
  }
}

}  // namespace lambent::scheduling
