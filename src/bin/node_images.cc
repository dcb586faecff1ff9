#include "bin/node_images.h"

#include <sys/statvfs.h>

#include <algorithm>
#include <utility>

namespace lambent {
namespace {

// So much of the disk stays free of copies.
constexpr Bytes kLeftFree = Bytes::mib(512);
constexpr Duration kPartTimeout = seconds(20);
// For which nothing asked for so long goes: its function may have been deleted.
constexpr Duration kLeftoverTime = std::chrono::hours(1);

// Images are of no tenant: who has one is asked where it is deployed.
VolumeName copy_of(const std::string& name) { return {kDefaultTenant, name}; }

std::string name_of(const std::string& digest) { return digest.substr(digest.find(':') + 1); }

}  // namespace

Result<std::unique_ptr<NodeImages>> NodeImages::open(const WorkerConfig& config,
                                                     loop::EventLoop& loop, LogSink& log,
                                                     images::ImageStore& images) {
  std::unique_ptr<NodeImages> made(new NodeImages(config, loop, log, images));
  const auto disk = [&thread = made->thread_](auto work, auto completion) {
    return thread.run(std::move(work), std::move(completion));
  };
  ASSIGN_OR_RETURN(made->copies_,
                   volumes::VolumeStore::open(made->folder_, loop.clock(), log, disk));
  // A worker that was killed unpacked them, and did not come to remove them.
  for (const VolumeName& each : made->copies_->all()) {
    if (images.find("sha256:" + each.name) != nullptr) {
      made->release(each.name);
    } else {
      made->release_later(each.name);
    }
  }
  made->shared_ = std::make_unique<volumes::SharedFiles>(
      nullptr, [&images](TenantId) { return images.layouts(); },
      [&images](TenantId, const std::string& layout) { images.note_shown(layout); }, disk);
  return made;
}

NodeImages::~NodeImages() {
  images_.set_source({});
  for (const auto& [name, timer] : leftovers_) loop_.cancel(timer);
}

void NodeImages::connect(cluster::ClusterNode& node, const AccessService& access,
                         objects::Disk offload) {
  const auto to_ask = [&node]() -> Result<std::vector<std::string>> {
    if (node.home().empty()) {
      return Error{ErrorCode::kUnavailable,
                   "this node was not told yet who else is in its cluster; try again"};
    }
    std::vector<std::string> nodes;
    if (node.home() != node.self()) nodes.push_back(node.home());
    for (const auto& other : node.others().all()) {
      if (other.node != node.home()) nodes.emplace_back(other.node);
    }
    return nodes;
  };
  const auto files_of = [&node, &access, offload = std::move(offload)](const std::string& other) {
    return std::make_unique<frontend::PeerVolumes>(frontend::PeerVolumes::Uses{
        .access = access,
        .offload = offload,
        .keeper = [other] { return other; },
        .ask =
            [&node, other](std::string target, auto done) {
              node.ask(other, {std::move(target)}, kPartTimeout, std::move(done));
            },
        .place = [](const VolumeName& copy) { return "/v1/cluster/images/" + copy.name; }});
  };
  connect({.to_ask = to_ask,
           .is_lost = [&node](const std::string& other) { return node.is_lost(other); },
           .files_of = files_of});
}

void NodeImages::connect(Nodes nodes) {
  nodes_ = std::move(nodes);
  images_.set_source(
      {.bring = [this](const std::string& digest, auto done) { bring(digest, std::move(done)); },
       .release = [this](const std::string& digest) { release(digest); }});
}

// ---- The disk

Bytes NodeImages::size_of(const std::string& name) const {
  const auto status = copies_->find_volume(kDefaultTenant, name);
  return status.ok() ? status->size + status->unfinished : Bytes();
}

NodeImages::Taken NodeImages::taken(const std::string& without) const {
  Taken taken;
  for (const VolumeName& each : copies_->all()) {
    const bool is_coming = coming_.contains(each.name) && coming_.at(each.name).fetch != nullptr;
    if (!is_coming && each.name != without) taken.all += size_of(each.name);
  }
  for (const auto& [name, image] : coming_) {
    if (image.fetch == nullptr || name == without) continue;
    taken.all += std::max(image.reserved, size_of(name));
    taken.to_come += image.missing - std::min(image.missing, image.fetch->brought());
  }
  return taken;
}

Result<void> NodeImages::room(const std::string& name, Bytes more) {
  Coming& image = coming_.at(name);
  const Bytes whole = size_of(name) + more;
  const std::string needs = "the image needs " + to_string(more) + " more, and ";
  if (whole > most_) {
    return Error{
        ErrorCode::kResourceExhausted,
        "the image has " + to_string(whole) + ", and --images-size allows " + to_string(most_)};
  }
  Bytes freed;  // it is a moment later
  for (;;) {
    const Taken others = taken(name);
    struct statvfs disk {};
    const bool is_known = statvfs(folder_.c_str(), &disk) == 0;
    const Bytes free = Bytes(uint64_t{disk.f_bavail} * disk.f_frsize) + freed;
    const bool fits_bound = others.all + whole <= most_;
    const bool fits_disk = !is_known || more + others.to_come + kLeftFree <= free;
    if (fits_bound && fits_disk) {
      image.reserved = whole;
      image.missing = more;
      return {};
    }
    if (leftovers_.empty()) {
      image.lacked_room = image.waits_for_room = others_make_room(name);
      if (fits_bound) {
        return Error{ErrorCode::kResourceExhausted,
                     needs + "the disk has " + to_string(free) + " free"};
      }
      return Error{ErrorCode::kResourceExhausted,
                   needs + "others that are copied take " + to_string(others.all) + " of the " +
                       to_string(most_) + " that --images-size allows"};
    }
    const auto left = leftovers_.extract(leftovers_.begin());
    loop_.cancel(left.mapped());
    freed += size_of(left.key());
    release(left.key());
  }
}

// What is unpacked goes after that. One that lacked room itself, and has not ended yet, makes none.
bool NodeImages::others_make_room(const std::string& name) const {
  return removing_ > 0 || !leases_.empty() ||
         std::ranges::any_of(coming_, [&name](const auto& each) {
           return each.first != name && each.second.fetch != nullptr && !each.second.lacked_room;
         });
}

void NodeImages::room_came() {
  for (auto& [name, image] : coming_) image.waits_for_room = false;
  begin_soon();
}

// ---- Bringing

void NodeImages::bring(const std::string& digest, Done done) {
  const std::string name = name_of(digest);
  if (const auto lease = leases_.find(name); lease != leases_.end()) {
    ++lease->second;
    return done(copies_->mounted_folder(kDefaultTenant, name));
  }
  if (waiting_ >= kMostWaiting) {
    return done(Error{ErrorCode::kResourceExhausted,
                      "too many wait for images of other nodes; try again later"});
  }
  ++waiting_;
  const auto [coming, is_new] = coming_.try_emplace(name);
  coming->second.waiting.push_back(std::move(done));
  if (!is_new) return;
  if (const auto left = leftovers_.extract(name)) loop_.cancel(left.mapped());
  Coming& image = coming->second;
  image.problem = {ErrorCode::kNotFound, "no other node has its layout; deploy the function again"};
  if (auto nodes = nodes_.to_ask(); nodes.ok()) {
    image.nodes.assign(nodes->rbegin(), nodes->rend());
  } else {
    image.problem = nodes.error();
  }
  queue_.push_back(name);
  begin_next();
}

size_t NodeImages::active() const {
  return static_cast<size_t>(std::ranges::count_if(
      coming_, [](const auto& each) { return each.second.fetch != nullptr; }));
}

void NodeImages::begin_next() {
  while (active() < kAtOnce) {
    const auto next = std::ranges::find_if(
        queue_, [this](const std::string& name) { return !coming_.at(name).waits_for_room; });
    if (next == queue_.end()) return;
    const std::string name = *next;
    queue_.erase(next);
    ask_next(name);
  }
}

void NodeImages::begin_soon() {
  loop_.call_after(Duration::zero(), [this, alive = std::weak_ptr<bool>(alive_)] {
    if (!alive.expired()) begin_next();
  });
}

void NodeImages::ask_next(const std::string& name) {
  Coming& image = coming_.at(name);
  if (image.nodes.empty()) return settle(name, image.problem);
  image.node = std::move(image.nodes.back());
  image.nodes.pop_back();
  if (nodes_.is_lost(image.node)) {
    image.problem = {ErrorCode::kUnavailable, "node '" + image.node + "' does not answer"};
    return ask_next(name);
  }
  image.reserved = image.missing = Bytes();
  image.source = nodes_.files_of(image.node);
  image.fetch = std::make_shared<volumes::VolumeFetch>(
      volumes::VolumeFetch::Uses{.loop = loop_,
                                 .source = *image.source,
                                 .copies = *copies_,
                                 .room = [this, name](Bytes more) { return room(name, more); }},
      copy_of(name), [this, name](const Result<void>& result) {
        // Not within the fetch that ended.
        loop_.call_after(Duration::zero(),
                         [this, alive = std::weak_ptr<bool>(alive_), name, result] {
                           if (!alive.expired()) ended(name, result);
                         });
      });
  log_.info("image_fetch", {{"image", name}, {"node", image.node}});
  image.fetch->start();
}

void NodeImages::ended(const std::string& name, const Result<void>& result) {
  Coming& image = coming_.at(name);
  const Bytes brought = image.fetch->brought();
  image.fetch.reset();
  if (result.ok()) {
    log_.info("image_fetched",
              {{"image", name}, {"brought_bytes", static_cast<int64_t>(brought.count)}});
    return settle(name, copies_->mounted_folder(kDefaultTenant, name));
  }
  log_.warning("image_not_fetched", {{"image", name}, {"error", to_string(result.error())}});
  if (std::exchange(image.lacked_room, false)) {
    image.nodes.push_back(image.node);
    queue_.push_back(name);
    return begin_soon();
  }
  // That a node does not have it is no problem of its own. What came altered may come right.
  const Error& error = result.error();
  if (error.code != ErrorCode::kNotFound) {
    image.problem = {is_retryable(error.code) ? error.code : ErrorCode::kUnavailable,
                     error.message};
  }
  ask_next(name);
}

void NodeImages::settle(const std::string& name, const Result<std::string>& folder) {
  const std::vector<Done> waiting = std::move(coming_.at(name).waiting);
  coming_.erase(name);
  waiting_ -= waiting.size();
  if (folder.ok()) {
    leases_[name] = waiting.size();
  } else {
    release_later(name);
  }
  room_came();
  for (const Done& done : waiting) done(folder);
}

void NodeImages::release_later(const std::string& name) {
  leftovers_[name] = loop_.call_after(kLeftoverTime, [this, name] {
    leftovers_.erase(name);
    release(name);
  });
}

void NodeImages::release(const std::string& digest) {
  const std::string name = name_of(digest);
  if (const auto lease = leases_.find(name); lease != leases_.end()) {
    if (--lease->second > 0) return;
    leases_.erase(lease);
  }
  if (coming_.contains(name)) return;
  ++removing_;
  copies_->remove_volume(kDefaultTenant, name,
                         [this, alive = std::weak_ptr<bool>(alive_)](const auto&) {
                           if (alive.expired()) return;
                           --removing_;
                           room_came();
                         });
}

}  // namespace lambent
