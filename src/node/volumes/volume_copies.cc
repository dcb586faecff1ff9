#include "node/volumes/volume_copies.h"

#include <algorithm>
#include <nlohmann/json.hpp>
#include <utility>

#include "core/base/fd.h"

namespace lambent::volumes {
namespace {

using nlohmann::json;

constexpr Duration kPeriod = seconds(1);
constexpr Duration kAgain = seconds(5);
constexpr size_t kMostRecord = 16 * 1024 * 1024;

std::string quoted(const std::string& name) { return "'" + name + "'"; }

}  // namespace

VolumeCopies::VolumeCopies(Uses uses) : uses_(std::move(uses)) {
  read_record();
  timer_ = uses_.loop.call_after(kPeriod, [this] { look(); });
}

VolumeCopies::~VolumeCopies() {
  uses_.loop.cancel(timer_);
  if (record_is_old_) write_record();
}

void VolumeCopies::set_source(VolumeSource* source) {
  source_ = source;
  if (source != nullptr) return;
  for (auto& [name, copy] : copies_) copy.fetch.reset();
}

// ---- The record

// A copy is whole if it has the files that it had when it was written down.
void VolumeCopies::read_record() {
  for (const VolumeName& name : uses_.copies.all()) copies_[name];
  const auto text = read_file(uses_.record, kMostRecord);
  if (!text.ok()) return;
  const json list = json::parse(*text, nullptr, false);
  if (!list.is_array()) return;
  for (const json& each : list) {
    const bool is_entry = each.is_array() && each.size() == 3 && each[0].is_number_unsigned() &&
                          each[1].is_string() && each[2].is_string();
    if (!is_entry) continue;
    const VolumeName name{TenantId(each[0].get<uint32_t>()), each[1].get<std::string>()};
    const auto status = uses_.copies.find_volume(name.tenant, name.name);
    if (!status.ok() || status->version != each[2].get<std::string>()) continue;
    copies_[name].version = status->version;
  }
}

// Once for all that changes in a turn of the loop.
void VolumeCopies::write_record_soon() {
  if (std::exchange(record_is_old_, true)) return;
  uses_.loop.call_after(Duration::zero(), [this, alive = std::weak_ptr<bool>(alive_)] {
    if (!alive.expired()) write_record();
  });
}

void VolumeCopies::write_record() {
  record_is_old_ = false;
  json list = json::array();
  for (const auto& [name, copy] : copies_) {
    if (!copy.version.empty()) list.push_back({name.tenant.value, name.name, copy.version});
  }
  // A small file. Lost, the files are compared once more.
  const auto written = write_file_atomically(uses_.record, list.dump() + "\n", false);
  if (written.ok()) return;
  uses_.log.warning("volume_record_not_written", {{"error", to_string(written.error())}});
}

// ---- What is here

bool VolumeCopies::is_whole(const VolumeName& volume) const {
  const auto copy = copies_.find(volume);
  return copy != copies_.end() && !copy->second.version.empty();
}

bool VolumeCopies::is_current(const VolumeName& volume) const {
  const auto kept = told_.find(volume);
  if (!is_whole(volume) || kept == told_.end()) return false;
  if (copies_.at(volume).version != kept->second.version) return false;
  // A fetch that failed may have changed files since then.
  const auto here = uses_.copies.find_volume(volume.tenant, volume.name);
  return here.ok() && here->version == kept->second.version;
}

bool VolumeCopies::is_here(const VolumeName& volume) const {
  if (!has_keeper() && !uses_.in_cluster) return true;
  if (!has_keeper()) {
    return is_whole(volume) || uses_.kept.find_volume(volume.tenant, volume.name).ok();
  }
  if (!told_.contains(volume)) {
    return was_told_ && uses_.kept.find_volume(volume.tenant, volume.name).ok();
  }
  if (is_current(volume)) return true;
  return is_whole(volume) && uses_.mounted && uses_.mounted().contains(volume);
}

Result<void> VolumeCopies::can_mount(const VolumeName& volume) const {
  // Its keeper has looked.
  if (has_keeper()) return {};
  const auto folder = uses_.kept.mounted_folder(volume.tenant, volume.name);
  return folder.ok() || is_whole(volume) ? Result<void>() : folder.error();
}

void VolumeCopies::note_use(const VolumeName& volume) {
  const auto copy = copies_.find(volume);
  if (copy != copies_.end()) copy->second.used_at = ++uses_counted_;
}

Result<std::string> VolumeCopies::folder(const VolumeName& volume) {
  const auto own = uses_.kept.mounted_folder(volume.tenant, volume.name);
  const bool is_kept_elsewhere = has_keeper() && (told_.contains(volume) || !was_told_);
  if (own.ok() && !told_.contains(volume)) return own;
  if (is_whole(volume) && (is_kept_elsewhere || !has_keeper())) {
    note_use(volume);
    return uses_.copies.mounted_folder(volume.tenant, volume.name);
  }
  if (!is_kept_elsewhere) return own;
  bring({volume}, [](const Result<void>&) {});
  const auto copy = copies_.find(volume);
  const std::string problem = copy == copies_.end() ? "" : copy->second.problem;
  return Error{ErrorCode::kUnavailable,
               "volume " + quoted(volume.name) + " is being brought from node " +
                   quoted(source_->keeper()) + (problem.empty() ? "" : " (" + problem + ")") +
                   "; try again"};
}

Result<std::string> VolumeCopies::copied_folder(const VolumeName& volume) {
  if (!is_whole(volume)) {
    return Error{ErrorCode::kNotFound, "there is no copy of " + quoted(volume.name)};
  }
  note_use(volume);
  return uses_.copies.mounted_folder(volume.tenant, volume.name);
}

std::vector<VolumeName> VolumeCopies::absent() const {
  std::vector<VolumeName> absent;
  if (!has_keeper()) return absent;
  for (const auto& [name, status] : told_) {
    if (!is_whole(name)) absent.push_back(name);
  }
  return absent;
}

VolumeCopies::Counts VolumeCopies::counts() const {
  Counts counts = counts_;
  counts.size = used();
  for (const auto& [name, copy] : copies_) {
    if (copy.fetch == nullptr) continue;
    ++counts.under_way;
    counts.brought += copy.fetch->brought();
  }
  return counts;
}

// ---- What its keeper has

void VolumeCopies::look() {
  uses_.loop.cancel(timer_);
  timer_ = uses_.loop.call_after(kPeriod, [this] { look(); });
  if (!asking_) ask();
}

void VolumeCopies::ask() {
  if (!has_keeper()) {
    told_.clear();
    was_told_ = false;
    return settle({});
  }
  asking_ = true;
  source_->list([this, alive = std::weak_ptr<bool>(alive_)](auto volumes) {
    if (!alive.expired()) told(std::move(volumes));
  });
}

void VolumeCopies::told(Result<std::map<VolumeName, VolumeStatus>> volumes) {
  const Result<void> asked = volumes.ok() ? Result<void>() : volumes.error();
  // A program that does not tell keeps its volumes to itself, as this node does then.
  const bool tells = volumes.ok() || volumes.error().code != ErrorCode::kUnimplemented;
  if (volumes.ok() || !tells) {
    told_ = volumes.ok() ? *std::move(volumes) : std::map<VolumeName, VolumeStatus>();
    was_told_ = true;
    if (tells) {
      // What is held goes after that, with a later answer.
      remove_copies(
          [this](const VolumeName& name) { return !told_.contains(name) && !is_held(name); });
    }
    renew_mounted();
  }
  settle(tells ? asked : Result<void>());
  // Only now: who began to wait while others were answered waits for the next answer.
  asking_ = false;
  if (waiting_next_.empty()) return;
  waiting_ = std::exchange(waiting_next_, {});
  ask();
}

void VolumeCopies::remove_copies(const std::function<bool(const VolumeName&)>& goes) {
  std::vector<VolumeName> gone;
  for (const auto& [name, copy] : copies_) {
    if (goes(name)) gone.push_back(name);
  }
  const Error why{ErrorCode::kFailedPrecondition, "it was removed meanwhile"};
  for (const VolumeName& name : gone) remove_copy(name, why);
}

void VolumeCopies::drop(const VolumeName& volume) {
  remove_copy(volume, {ErrorCode::kUnavailable, "what came was no good; try again"});
}

// Sandboxes that run see what was changed.
void VolumeCopies::renew_mounted() {
  std::optional<std::set<VolumeName>> mounted;
  for (const auto& [name, status] : told_) {
    const auto copy = copies_.find(name);
    if (copy == copies_.end() || copy->second.version.empty() || is_current(name)) continue;
    if (copy->second.not_before > uses_.loop.now()) continue;
    if (!mounted) mounted = uses_.mounted ? uses_.mounted() : std::set<VolumeName>();
    if (mounted->contains(name)) want(name);
  }
}

void VolumeCopies::remove_copy(const VolumeName& volume, const Error& why) {
  copies_.erase(volume);
  std::erase(queue_, volume);
  if (uses_.removed) uses_.removed(volume);
  write_record_soon();
  settle_fetching(volume, why);
  if (!uses_.copies.find_volume(volume.tenant, volume.name).ok()) return;
  uses_.copies.remove_volume(
      volume.tenant, volume.name, [this, volume](const Result<VolumeStatus>& removed) {
        if (removed.ok()) return;
        uses_.log.warning("volume_copy_not_removed",
                          {{"volume", volume.name}, {"error", to_string(removed.error())}});
      });
}

void VolumeCopies::forget_tenant(TenantId tenant) {
  remove_copies([tenant](const VolumeName& name) { return name.tenant == tenant; });
}

// ---- Who waits

void VolumeCopies::bring(const std::vector<VolumeName>& volumes, Done done) {
  if (waiting_.size() + waiting_next_.size() + fetching_.size() >= kMostWaiting) {
    return done(Error{ErrorCode::kResourceExhausted,
                      "too much waits for volumes of other nodes; try again later"});
  }
  Waiting waiting{{}, std::move(done)};
  for (const VolumeName& volume : volumes) waiting.volumes[volume] = 1;
  // What is on its way may have been asked for before a change.
  (asking_ ? waiting_next_ : waiting_).push_back(std::move(waiting));
  if (!asking_) ask();
}

void VolumeCopies::settle(const Result<void>& asked) {
  for (Waiting& waiting : std::exchange(waiting_, {})) {
    const auto missing = missing_of(waiting, asked);
    if (missing) {
      waiting.done(*missing);
    } else if (waiting.volumes.empty()) {
      waiting.done({});
    } else {
      fetching_.push_back(std::move(waiting));
    }
  }
  begin_next();
}

// Leaves what has to be brought; an error: it cannot be.
std::optional<Error> VolumeCopies::missing_of(Waiting& waiting, const Result<void>& asked) {
  std::map<VolumeName, int> needed;
  for (const auto& [volume, rounds] : waiting.volumes) {
    // What it knows is good enough while nothing can be asked.
    if (!asked.ok() && is_whole(volume)) continue;
    if (!asked.ok()) return not_brought(volume, asked.error());
    if (told_.contains(volume)) {
      const auto copy = copies_.find(volume);
      const bool is_coming = copy != copies_.end() && copy->second.fetch != nullptr;
      if (!is_current(volume)) needed[volume] = is_coming ? 2 : 1;
      continue;
    }
    const auto own = uses_.kept.find_volume(volume.tenant, volume.name);
    if (own.ok() || (!has_keeper() && is_whole(volume))) continue;
    if (lacks_keeper()) {
      return Error{ErrorCode::kUnavailable,
                   "this node was not told yet who else is in its cluster, and does not have "
                   "volume " +
                       quoted(volume.name) + " itself: try again"};
    }
    return Error{ErrorCode::kFailedPrecondition, own.error().message};
  }
  for (const auto& [volume, rounds] : needed) want(volume);
  waiting.volumes = std::move(needed);
  return std::nullopt;
}

Error VolumeCopies::not_brought(const VolumeName& volume, const Error& why) const {
  const std::string keeper = source_ == nullptr ? "" : source_->keeper();
  return why.with_context("volume " + quoted(volume.name) + " cannot be brought from node " +
                          quoted(keeper));
}

// ---- Bringing

void VolumeCopies::want(const VolumeName& volume) {
  Copy& copy = copies_[volume];
  const bool is_queued = std::ranges::find(queue_, volume) != queue_.end();
  if (copy.fetch != nullptr || is_queued) return;
  queue_.push_back(volume);
  note_use(volume);
}

void VolumeCopies::begin_next() {
  while (!queue_.empty()) {
    const auto active = std::ranges::count_if(
        copies_, [](const auto& each) { return each.second.fetch != nullptr; });
    if (static_cast<size_t>(active) >= kAtOnce) return;
    const VolumeName volume = queue_.front();
    queue_.pop_front();
    if (!has_keeper()) {
      ended(volume, Error{ErrorCode::kUnavailable, "its node is in no cluster any more"});
      continue;
    }
    auto fetch = std::make_shared<VolumeFetch>(
        VolumeFetch::Uses{.loop = uses_.loop,
                          .source = *source_,
                          .copies = uses_.copies,
                          .room = [this, volume](Bytes more) { return make_room(volume, more); }},
        volume, [this, volume](const Result<void>& result) { ended(volume, result); });
    copies_[volume].fetch = fetch;
    const auto kept = told_.find(volume);
    const int64_t size = kept == told_.end() ? 0 : static_cast<int64_t>(kept->second.size.count);
    uses_.log.info("volume_fetch", {{"volume", volume.name},
                                    {"tenant", int64_t{volume.tenant.value}},
                                    {"node", source_->keeper()},
                                    {"volume_bytes", size}});
    fetch->start();
  }
}

void VolumeCopies::ended(const VolumeName& volume, const Result<void>& result) {
  const auto found = copies_.find(volume);
  const bool is_there = found != copies_.end();
  Bytes brought;
  if (is_there && found->second.fetch != nullptr) brought = found->second.fetch->brought();
  counts_.brought += brought;
  ++(result.ok() ? counts_.fetched : counts_.failed);
  if (is_there) {
    Copy& copy = found->second;
    copy.fetch.reset();
    copy.problem = result.ok() ? "" : result.error().message;
    const auto status = uses_.copies.find_volume(volume.tenant, volume.name);
    if (result.ok() && status.ok()) copy.version = status->version;
    if (!result.ok()) copy.not_before = uses_.loop.now() + kAgain;
    note_use(volume);
    if (result.ok()) write_record_soon();
  }
  if (result.ok()) {
    uses_.log.info("volume_fetched", {{"volume", volume.name},
                                      {"tenant", int64_t{volume.tenant.value}},
                                      {"brought_bytes", static_cast<int64_t>(brought.count)}});
  } else {
    uses_.log.warning("volume_not_fetched", {{"volume", volume.name},
                                             {"tenant", int64_t{volume.tenant.value}},
                                             {"brought_bytes", static_cast<int64_t>(brought.count)},
                                             {"error", to_string(result.error())}});
  }
  settle_fetching(volume, result);
  uses_.loop.call_after(Duration::zero(), [this, alive = std::weak_ptr<bool>(alive_)] {
    if (!alive.expired()) begin_next();
  });
}

void VolumeCopies::settle_fetching(const VolumeName& volume, const Result<void>& result) {
  std::vector<Waiting> ready, waiting;
  const bool is_newest = result.ok() && is_current(volume);
  for (Waiting& each : std::exchange(fetching_, {})) {
    const auto found = each.volumes.find(volume);
    const bool waited = found != each.volumes.end();
    if (waited && (is_newest || --found->second == 0)) each.volumes.erase(found);
    const bool is_over = waited && (!result.ok() || each.volumes.empty());
    if (waited && !is_over && each.volumes.contains(volume)) want(volume);
    (is_over ? ready : waiting).push_back(std::move(each));
  }
  fetching_ = std::move(waiting);
  for (const Waiting& each : ready) {
    each.done(result.ok() ? Result<void>() : not_brought(volume, result.error()));
  }
}

// ---- The disk

std::optional<VolumeName> VolumeCopies::least_used(const std::set<VolumeName>& mounted) const {
  std::optional<VolumeName> least;
  for (const auto& [name, copy] : copies_) {
    const bool is_wanted = copy.fetch != nullptr || mounted.contains(name) || is_held(name) ||
                           std::ranges::find(queue_, name) != queue_.end();
    if (is_wanted || !uses_.copies.find_volume(name.tenant, name.name).ok()) continue;
    if (!least || copy.used_at < copies_.at(*least).used_at) least = name;
  }
  return least;
}

Bytes VolumeCopies::used() const {
  Bytes used = uses_.copies.used();
  for (const auto& [name, copy] : copies_) used += made_of(name);
  return used;
}

// Copies that nothing mounts give way to one that is needed, the least recently used first.
Result<void> VolumeCopies::make_room(const VolumeName& volume, Bytes more) {
  if (more == Bytes()) return {};
  std::set<VolumeName> mounted = uses_.mounted ? uses_.mounted() : std::set<VolumeName>();
  mounted.insert(volume);
  // What is removed is free a moment later.
  Bytes freed;
  for (;;) {
    const Bytes used = this->used();
    const auto free = uses_.free ? uses_.free() : std::nullopt;
    const bool fits_bound = used + more <= uses_.most;
    const bool fits_disk = !free || more + kLeftFree <= *free + freed;
    if (fits_bound && fits_disk) return {};
    const auto least = least_used(mounted);
    if (!least) {
      const std::string needs =
          "volume " + quoted(volume.name) + " needs " + to_string(more) + " more on this node, ";
      if (!fits_bound) {
        return Error{ErrorCode::kResourceExhausted,
                     needs + "where copies of volumes take " + to_string(used) + " and may take " +
                         to_string(uses_.most) + " (--volume-copies)"};
      }
      return Error{ErrorCode::kResourceExhausted,
                   needs + "whose disk has " + to_string(*free) + " free"};
    }
    const auto status = uses_.copies.find_volume(least->tenant, least->name);
    if (status.ok()) freed += status->size + status->unfinished + made_of(*least);
    ++counts_.evicted;
    uses_.log.info(
        "volume_copy_evicted",
        {{"volume", least->name}, {"tenant", int64_t{least->tenant.value}}, {"for", volume.name}});
    remove_copy(*least, {ErrorCode::kUnavailable, "it made way for others; try again"});
  }
}

}  // namespace lambent::volumes
