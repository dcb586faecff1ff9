#include "edge/frontend/peer_volumes.h"

#include <utility>

#include "core/crypto/crypto.h"
#include "core/domain/limits.h"
#include "edge/frontend/offload.h"

namespace lambent::frontend {
namespace {

// A list of files that changes while it is read is begun again so often.
constexpr unsigned kTries = 5;

Error refusal_of(const http::Response& answer) {
  const ErrorCode code = answer.status == 404   ? ErrorCode::kNotFound
                         : answer.status == 409 ? ErrorCode::kAborted
                                                : ErrorCode::kUnavailable;
  return {code, "it answered " + std::to_string(answer.status)};
}

}  // namespace

// One reading of all files of a volume.
struct PeerVolumes::Listing {
  VolumeName volume;
  Callback<std::vector<VolumeFile>> done;
  std::string version;
  std::vector<VolumeFile> files;
  unsigned tries = 1;
};

std::string PeerVolumes::target_of(const VolumeName& volume, const std::string& what) const {
  if (uses_.place) return uses_.place(volume) + "/" + what;
  return "/v1/cluster/volumes/" + http::percent_encode(uses_.access.tenant_name(volume.tenant)) +
         "/" + http::percent_encode(volume.name) + "/" + what;
}

std::map<VolumeName, VolumeStatus> PeerVolumes::volumes_here(const VolumeList& list) const {
  std::map<VolumeName, VolumeStatus> volumes;
  for (const ToldVolume& each : list.volumes) {
    // A tenant that this node does not know yet has no functions here either.
    const auto tenant = uses_.access.find_tenant(each.tenant);
    if (tenant.ok()) volumes[{tenant->id, each.volume.name}] = each.volume;
  }
  return volumes;
}

void PeerVolumes::list(Callback<std::map<VolumeName, VolumeStatus>> done) {
  const std::string node = keeper();
  const std::string known = known_of_ == node ? known_.version : "";
  uses_.ask("/v1/cluster/volumes?known=" + known,
            [this, alive = std::weak_ptr<bool>(alive_), node,
             done = std::move(done)](const Result<http::Response>& answer) {
              if (alive.expired()) return;
              if (!answer.ok()) return done(answer.error());
              if (answer->status == 304 && known_of_ == node) return done(volumes_here(known_));
              if (answer->status == 404) {
                return done(Error{ErrorCode::kUnimplemented,
                                  "its program keeps its volumes to "
                                  "itself"});
              }
              if (answer->status != 200) return done(refusal_of(*answer));
              auto list = read_volume_list(answer->body);
              if (!list.ok()) return done(Error{ErrorCode::kUnavailable, list.error().message});
              known_ = *std::move(list);
              known_of_ = node;
              done(volumes_here(known_));
            });
}

void PeerVolumes::list_files(const VolumeName& volume, Callback<std::vector<VolumeFile>> done) {
  list_on(std::make_shared<Listing>(Listing{.volume = volume, .done = std::move(done)}));
}

void PeerVolumes::list_on(const std::shared_ptr<Listing>& listing) {
  const std::string after = listing->files.empty() ? "" : listing->files.back().path;
  uses_.ask(
      target_of(listing->volume, "files?after=" + http::percent_encode(after)),
      [this, alive = std::weak_ptr<bool>(alive_), listing](const Result<http::Response>& answer) {
        if (alive.expired()) return;
        if (!answer.ok()) return listing->done(answer.error());
        if (answer->status != 200) return listing->done(refusal_of(*answer));
        auto page = read_volume_page(answer->body);
        if (!page.ok()) {
          return listing->done(Error{ErrorCode::kUnavailable, page.error().message});
        }
        const bool is_first = listing->files.empty();
        if (is_first) listing->version = page->version;
        const bool goes_on = is_first || page->files.empty() ||
                             listing->files.back().path < page->files.front().path;
        if (page->version != listing->version || !goes_on) {
          if (++listing->tries > kTries) {
            return listing->done(
                Error{ErrorCode::kUnavailable, "its files change while they are listed"});
          }
          listing->files.clear();
          return list_on(listing);
        }
        for (VolumeFile& file : page->files) listing->files.push_back(std::move(file));
        if (listing->files.size() > limits::kFilesPerVolume) {
          return listing->done(
              Error{ErrorCode::kUnavailable, "it has more files than a volume may have"});
        }
        if (page->is_last) return listing->done(std::move(listing->files));
        list_on(listing);
      });
}

void PeerVolumes::read(const VolumeName& volume, const VolumeFile& file, Bytes offset, Bytes count,
                       Callback<std::string> done) {
  const std::string target =
      target_of(volume, "content?path=" + http::percent_encode(file.path) +
                            "&sha256=" + file.sha256 + "&offset=" + std::to_string(offset.count) +
                            "&count=" + std::to_string(count.count));
  // Shared between the thread that computes and the loop.
  struct Part {
    std::string said;
    std::string bytes;
    bool is_good = false;
    Callback<std::string> done;
  };
  uses_.ask(target, [offload = uses_.offload, count,
                     done = std::move(done)](const Result<http::Response>& answer) {
    if (!answer.ok()) return done(answer.error());
    if (answer->status != 200) return done(refusal_of(*answer));
    if (answer->body.size() != count.count) {
      return done(Error{ErrorCode::kDataLoss, "another number of bytes came than was asked for"});
    }
    auto part =
        std::make_shared<Part>(Part{.said = std::string(answer->headers.get("x-lambent-digest")),
                                    .bytes = answer->body,
                                    .done = done});
    const bool queued = offload(
        [part] { part->is_good = crypto::to_hex(crypto::sha256(part->bytes)) == part->said; },
        [part] {
          if (part->is_good) return part->done(std::move(part->bytes));
          part->done(Error{ErrorCode::kDataLoss, "other bytes came than were sent"});
        });
    if (!queued) part->done(overloaded());
  });
}

}  // namespace lambent::frontend
