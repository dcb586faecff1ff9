#include "bin/node_images.h"

#include <sys/statvfs.h>

#include <utility>

#include "core/domain/limits.h"

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
      nullptr, [&images](TenantId) { return images.layouts(); }, disk);
  return made;
}

NodeImages::~NodeImages() {
  images_.set_source({});
  for (const auto& [name, timer] : leftovers_) loop_.cancel(timer);
}

void NodeImages::connect(cluster::ClusterNode& node, const AccessService& access,
                         objects::Disk offload) {
  node_ = &node;
  access_ = &access;
  offload_ = std::move(offload);
  images_.set_source(
      {.bring = [this](const std::string& digest, auto done) { bring(digest, std::move(done)); },
       .release = [this](const std::string& digest) { release(digest); }});
}

Result<void> NodeImages::room(Bytes more) const {
  struct statvfs disk {};
  const bool is_known = statvfs(folder_.c_str(), &disk) == 0;
  const Bytes free(uint64_t{disk.f_bavail} * disk.f_frsize);
  if (more > most_) {
    return Error{
        ErrorCode::kResourceExhausted,
        "the image has " + to_string(more) + ", and --images-size allows " + to_string(most_)};
  }
  if (!is_known || more + kLeftFree <= free) return {};
  return Error{
      ErrorCode::kResourceExhausted,
      "the image needs " + to_string(more) + ", and the disk has " + to_string(free) + " free"};
}

void NodeImages::bring(const std::string& digest, Done done) {
  const std::string name = name_of(digest);
  const auto [coming, is_new] = coming_.try_emplace(name);
  coming->second.waiting.push_back(std::move(done));
  if (!is_new) return;
  if (const auto left = leftovers_.extract(name)) loop_.cancel(left.mapped());
  Coming& image = coming->second;
  image.problem = {ErrorCode::kNotFound, "no other node has its layout; deploy the function again"};
  if (node_->home().empty()) {
    image.problem = {ErrorCode::kUnavailable,
                     "this node was not told yet who else is in its cluster; try again"};
  }
  // The first one last here: they are taken from the end.
  for (const auto& other : node_->others()) {
    if (other.node != node_->home()) image.nodes.push_back(other.node);
  }
  if (node_->home() != node_->self() && !node_->home().empty()) {
    image.nodes.push_back(node_->home());
  }
  ask_next(name);
}

void NodeImages::ask_next(const std::string& name) {
  Coming& image = coming_.at(name);
  if (image.nodes.empty()) return settle(name, image.problem);
  const std::string node = std::move(image.nodes.back());
  image.nodes.pop_back();
  if (node_->is_lost(node)) {
    image.problem = {ErrorCode::kUnavailable, "node '" + node + "' does not answer"};
    return ask_next(name);
  }
  image.source = std::make_unique<frontend::PeerVolumes>(frontend::PeerVolumes::Uses{
      .access = *access_,
      .offload = offload_,
      .keeper = [node] { return node; },
      .ask = [this, node](
                 std::string target,
                 auto done) { node_->ask(node, std::move(target), kPartTimeout, std::move(done)); },
      .place = [](const VolumeName& copy) { return "/v1/cluster/images/" + copy.name; }});
  image.fetch = std::make_shared<volumes::VolumeFetch>(
      volumes::VolumeFetch::Uses{.loop = loop_,
                                 .source = *image.source,
                                 .copies = *copies_,
                                 .room = [this](Bytes more) { return room(more); }},
      copy_of(name), [this, name](const Result<void>& result) {
        // Not within the fetch that ended.
        loop_.call_after(Duration::zero(),
                         [this, alive = std::weak_ptr<bool>(alive_), name, result] {
                           if (!alive.expired()) ended(name, result);
                         });
      });
  log_.info("image_fetch", {{"image", name}, {"node", node}});
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
  if (!folder.ok()) release_later(name);
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
  if (coming_.contains(name)) return;
  copies_->remove_volume(kDefaultTenant, name, [](const Result<VolumeStatus>&) {});
}

}  // namespace lambent
