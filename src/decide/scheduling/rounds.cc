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
  if (turn.pending > 0) count_waiting(turn, false);
  turn = {turn_of(flow, takes), tenant};
  if (unit_ > Duration(0) && flow.pending > 0) {
    turn.pending = flow.pending;
    turn.work = flow.pending * std::min(takes, kMostOverRuns * over_run_);
    count_waiting(turn, true);
  }
  rounds_[tenant] += turn.length;
}

void Rounds::grow(uint32_t tenant) {
  if (tenant < backlogs_.size()) return;
  backlogs_.resize(tenant + 1);
  pending_.resize(tenant + 1);
  held_.resize(tenant + 1);
}

void Rounds::hold(uint32_t tenant, bool held) {
  grow(tenant);
  if (std::exchange(held_[tenant], held) == static_cast<uint8_t>(held)) return;
  waiting_ += held ? -pending_[tenant] : pending_[tenant];
}

void Rounds::count_waiting(const Turn& turn, bool comes) {
  grow(turn.tenant);
  const uint64_t more = comes ? turn.pending : -uint64_t{turn.pending};
  pending_[turn.tenant] += more;
  if (!held_[turn.tenant]) waiting_ += more;
  backlogs_[turn.tenant] += comes ? turn.work : -turn.work;
}

bool Rounds::scale_again(uint32_t tenant, size_t devices) {
  if (unit_ == Duration(0)) return false;
  if (tenant >= scales_.size()) scales_.resize(tenant + 1, 1);
  const Duration backlog = tenant < backlogs_.size() ? backlogs_[tenant] : Duration(0);
  const Duration step = 2 * static_cast<int64_t>(std::max<size_t>(devices, 1)) * unit_;
  uint8_t scale = 1;
  while (scale < kMostScale && backlog >= (scale + 1) * step) ++scale;
  // Down only from a quarter of a step below, or a backlog about a step would rank all candidates
  // again with each call that comes or goes.
  const uint8_t before = scales_[tenant];
  if (scale < before && backlog >= before * step - step / 4) scale = before;
  return std::exchange(scales_[tenant], scale) != scale;
}

void Rounds::archive(StateArchive& archive, size_t flows) {
  if (!follows_) return;
  archive.list(turns_, [&](Turn& turn) {
    archive.field(turn.length);
    archive.expect(turn.length >= Duration(0) && turn.length <= over_run_);
    if (unit_ == Duration(0)) return;
    archive.field(turn.pending);
    archive.field(turn.work);
    // Foreign, so nothing is multiplied that may not fit.
    archive.expect(turn.work >= Duration(0) &&
                   turn.work / std::max(turn.pending, 1U) <= kMostOverRuns * over_run_);
  });
  archive.expect(turns_.size() <= flows);
  if (unit_ == Duration(0)) return;
  archive.list(scales_, [&](uint8_t& scale) {
    archive.field(scale);
    archive.expect(scale >= 1 && scale <= kMostScale);
  });
}

void Rounds::find_again(const std::vector<uint32_t>& tenants) {
  rounds_.clear();
  backlogs_.clear();
  pending_.clear();
  held_.clear();
  waiting_ = 0;
  for (size_t i = 0; i < turns_.size(); ++i) {
    turns_[i].tenant = tenants[i];
    if (tenants[i] >= rounds_.size()) rounds_.resize(tenants[i] + 1);
    rounds_[tenants[i]] += turns_[i].length;
    if (turns_[i].pending > 0) count_waiting(turns_[i], true);
  }
}

}  // namespace lambent::scheduling
