// ImageStore: the container images of functions. One is pulled and unpacked once for all functions
// that name it, shared by them read-only, and removed when no function refers to it and there is no
// room. Used by the worker on the loop thread.
#pragma once

#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "core/base/log.h"
#include "core/domain/image_function.h"
#include "core/domain/volume_source.h"
#include "core/loop/event_loop.h"
#include "node/environments/build_process.h"
#include "node/environments/shelf.h"
#include "node/images/pull_order.h"

namespace lambent::images {

struct ImageOptions {
  std::string folder;   // in the state folder
  std::string program;  // lambent-environment
  std::string skopeo;   // empty: there is none, and no image can be pulled
  std::string umoci;
  std::string auth_file;  // of registries; empty: none
  std::vector<std::string>
      registries;                      // that functions may name; empty: all but those of this host
  std::vector<std::string> variables;  // "NAME=VALUE" for skopeo: the node's proxies
  Bytes most = Bytes::gib(40);         // of all
  Duration timeout = std::chrono::minutes(30);
  bool keeps_layouts = false;  // of images of this machine, for other nodes
  std::string glibc_needed;    // by what functions with a GPU are shown; empty: nothing
};

// What a function of an image starts with.
struct ImageStart {
  std::string folder;  // its root on the host
  std::vector<std::string> command;
  std::map<std::string, std::string> environment;
  std::string working_directory;
  uint32_t user = 0;
};

// INVALID_ARGUMENT: neither has a program. Pure.
Result<ImageStart> start_of(const PulledImage& image, const ImageCommand& command);

// Whether functions may name an image of this registry: `allowed` as in ImageOptions, each a
// registry or the beginning of a repository's name ("ghcr.io/owner"). PERMISSION_DENIED. Pure.
Result<void> check_registry(const ImageReference& reference,
                            const std::vector<std::string>& allowed);

// Whether the shim and the driver can be loaded in it. FAILED_PRECONDITION. Pure.
Result<void> check_for_gpu(const PulledImage& image, const std::string& glibc_needed);

// As whom an image is asked for.
struct ImageAccess {
  // Credentials of the tenant's own, as registry_credentials() gives them; empty: the operator's.
  std::string credentials = {};
  // The tenant has the image already: what is here is its own.
  bool is_known = false;
  // Another node has deployed the function with this image, so that it may come from there.
  bool is_elsewhere = false;
};

// How images that lie on other nodes of the cluster come here.
struct ImageSource {
  // The folder with the layout that another node has of it. NOT_FOUND: all were asked, and none
  // has; UNAVAILABLE: none that answers has; RESOURCE_EXHAUSTED: the disk.
  std::function<void(const std::string& digest, std::function<void(Result<std::string>)>)> bring;
  // Once for each folder that was brought: who was given it does not need it any more.
  std::function<void(const std::string& digest)> release;
};

// What a tenant keeps as its secret of that name: a file as `skopeo login` or `docker login` write
// it. Only its names and passwords are taken; FAILED_PRECONDITION, without its contents, if it has
// none. Pure.
inline constexpr char kRegistrySecret[] = "registry-auth";
Result<std::string> registry_credentials(std::string_view secret);

class ImageStore {
 public:
  using Done = std::function<void(Result<PulledImage>)>;
  // Runs work off the loop thread; false: too much waits.
  using Offload = std::function<bool(std::function<void()> work, std::function<void()> then)>;

  static constexpr size_t kPullsAtOnce = 2;
  static constexpr size_t kMostWaiting = 100;
  static constexpr Duration kGrace = std::chrono::minutes(20);

  ImageStore(loop::EventLoop& loop, LogSink& log, Offload offload, ImageOptions options);
  ~ImageStore();

  // Finds what an earlier worker pulled, and removes what it did not finish. Blocks; before the
  // loop runs.
  Result<void> recover();

  // `local_path`: where an image of the worker's machine lies, without links; it was allowed. Its
  // digest is what a function has to keep. FAILED_PRECONDITION: there is no skopeo or umoci.
  // PERMISSION_DENIED: the registry is not allowed. Others as pull_image(). An image that is here
  // is given to a tenant that does not have it once its registry has shown that it may. One that is
  // here without its layout is given in any case, and the layout comes first if it can be had.
  void ensure(const ImageReference& reference, const std::string& local_path,
              const ImageAccess& access, Done done);
  // Where else to look for images of other machines, from now on.
  void set_source(ImageSource source) { source_ = std::move(source); }
  // The layouts that it keeps, each by the hexadecimal digits of the image's digest.
  std::vector<SharedFolder> layouts() const;
  // Another node reads this one of them: for kGrace the image does not go.
  void note_shown(const std::string& layout);
  // What is done for this reference right now, in words; empty: nothing.
  std::string progress(const std::string& reference) const;
  // The image that has this digest; null: it is not here.
  const PulledImage* find(const std::string& digest) const;
  // Whether it is here with all that this node keeps of images. Those of a worker that kept no
  // layouts lack theirs.
  bool is_whole(const std::string& digest) const;
  // UNAVAILABLE: it is being pulled again. FAILED_PRECONDITION: it is not here.
  Result<ImageStart> start(const ImageCommand& command) const;
  // The packages that functions have (key_of() of images): other images may go.
  void collect(const std::set<std::string>& keys);
  // A function has this one from now on; no function has these any more.
  void use(const std::string& key);
  void release(const std::vector<std::string>& keys);
  // As check_for_gpu(), on this machine.
  Result<void> check_gpu(const PulledImage& image) const {
    return check_for_gpu(image, options_.glibc_needed);
  }

 private:
  struct Pull {
    PullOrder order;
    std::vector<Done> waiting;
    std::unique_ptr<environments::BuildProcess> process;  // null: it waits itself
    Instant started;
  };

  std::string ready(const std::string& key) const;
  // What it takes of the disk beside the image with which it shares files.
  Bytes counted(const PulledImage& image) const;
  void bring(const ImageReference& reference, const std::string& local_path,
             const ImageAccess& access, Done done);
  void pull(const ImageReference& reference, const std::string& local_path, bool is_copy,
            const ImageAccess& access, Done done);
  Result<PullOrder> order_of(const ImageReference& reference, const std::string& local_path,
                             const ImageAccess& access);
  // Of any tenant; null: none.
  const Pull* pull_of(const std::string& reference) const;
  void start_pulls();
  void ended(const std::string& name, Result<PulledImage> image);
  // The layout that another node's came to, which nothing unpacks.
  void leave_copy(const ImageReference& reference);
  void note_layout(const std::shared_ptr<Pull>& pull, const PulledImage& image);
  void settle(const Pull& pull, const Result<PulledImage>& image);
  // RESOURCE_EXHAUSTED: there is none, whatever goes.
  Result<void> make_room(const std::string& newest);
  void evict(const std::string& key);

  loop::EventLoop& loop_;
  LogSink& log_;
  const Offload offload_;
  const ImageOptions options_;
  ImageSource source_;
  environments::Shelf shelf_;
  std::map<std::string, PulledImage> images_;    // by key
  std::map<std::string, SharedFolder> layouts_;  // by key
  std::set<std::string> used_;                   // keys
  // By reference and, after a line's end, credentials: who has others waits for a pull of its own.
  std::map<std::string, std::unique_ptr<Pull>> pulls_;
  std::deque<std::string> queue_;  // names of pulls that wait
  size_t running_ = 0;
  uint64_t count_ = 0;  // of pulls and removals, for names
};

}  // namespace lambent::images
