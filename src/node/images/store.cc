#include "node/images/store.h"

#include <algorithm>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <utility>

#include "core/base/fd.h"
#include "core/base/json_text.h"
#include "core/crypto/crypto.h"
#include "core/domain/volume.h"
#include "node/images/image_tree.h"
#include "node/images/puller.h"
#include "node/images/shared_content.h"

namespace lambent::images {
namespace {

namespace fs = std::filesystem;

constexpr size_t kMostReport = 1 << 20;
constexpr size_t kMostCredentials = 64 << 10;
constexpr size_t kMostIndex = 4 << 20;

bool is_of_this_host(const std::string& registry) {
  const std::string host = registry.substr(0, registry.find(':'));
  return host == "localhost" || host.starts_with("127.");
}

// Blobs have their digests as names; what else there is, is small. Nothing: there is no layout, or
// it has links: foreign programs wrote it, and other nodes would read what they lead to.
SharedFolder read_layout(const std::string& folder, const std::string& name) {
  constexpr char kBlobs[] = "blobs/sha256/";
  SharedFolder layout{.name = name, .files = {}};
  for (const char* each : {"", "/blobs", "/blobs/sha256"}) {
    if (!is_plain_folder(folder + each)) return {};
  }
  std::error_code error;
  for (fs::directory_iterator each(folder + "/" + kBlobs, error), end; !error && each != end;
       each.increment(error)) {
    const std::string digest = each->path().filename();
    if (!is_plain_file(each->path())) return {};
    const Bytes size(each->file_size(error));
    if (error || !validate_sha256(digest).ok()) return {};
    layout.files.push_back({.file = {kBlobs + digest, size, digest}, .place = each->path()});
  }
  for (const char* file : {"index.json", "oci-layout"}) {
    const std::string place = folder + "/" + file;
    if (error || !is_plain_file(place)) return {};
    const auto text = read_file(place, kMostIndex);
    if (!text.ok()) return {};
    layout.files.push_back(
        {.file = {file, Bytes(text->size()), crypto::to_hex(crypto::sha256(*text))},
         .place = place});
  }
  return layout;
}

// Whether another node may have what a registry did not give. What is wrong with the image is wrong
// everywhere.
bool may_be_elsewhere(ErrorCode code) {
  return code == ErrorCode::kUnavailable || code == ErrorCode::kPermissionDenied ||
         code == ErrorCode::kNotFound || code == ErrorCode::kDeadlineExceeded;
}

// What a function names and is not there is a mistake in what the function says.
Result<PulledImage> as_told(Result<PulledImage> image) {
  if (image.ok() || image.error().code != ErrorCode::kNotFound) return image;
  return Error{ErrorCode::kInvalidArgument, image.error().message};
}

std::string hex_of(const std::string& digest) { return digest.substr(digest.find(':') + 1); }

}  // namespace

Result<ImageStart> start_of(const PulledImage& image, const ImageCommand& command) {
  ImageStart start{.folder = "",
                   .command = command.entry_point.value_or(image.config.entry_point),
                   .environment = image.config.environment,
                   .working_directory = command.working_directory.empty()
                                            ? image.config.working_directory
                                            : command.working_directory,
                   .user = image.user.id};
  // As `docker run` does: the image's words go with the image's entry point.
  std::vector<std::string> words = command.command.value_or(
      command.entry_point ? std::vector<std::string>() : image.config.command);
  start.command.insert(start.command.end(), words.begin(), words.end());
  start.environment.insert({"HOME", image.user.home});
  if (!start.command.empty() && !start.command.front().empty()) return start;
  return Error{ErrorCode::kInvalidArgument,
               "image " + text_of(command.image) +
                   ": it has neither an entry point nor a command; give the function a command"};
}

Result<void> check_registry(const ImageReference& reference,
                            const std::vector<std::string>& allowed) {
  if (reference.is_local()) return {};
  const std::string registry = reference.registry();
  const auto covers = [&](const std::string& one) {
    return registry == one || reference.name == one || reference.name.starts_with(one + "/");
  };
  if (std::ranges::any_of(allowed, covers)) return {};
  if (allowed.empty() && !is_of_this_host(registry)) return {};
  return Error{ErrorCode::kPermissionDenied,
               "image " + text_of(reference) + ": this worker pulls nothing from " + registry +
                   "; its operator allows registries with --image-registry"};
}

Result<std::string> registry_credentials(std::string_view secret) {
  using nlohmann::json;
  const Error wrong{ErrorCode::kFailedPrecondition,
                    std::string("the secret ") + kRegistrySecret +
                        " has no credentials of registries; it is what 'skopeo login --authfile "
                        "FILE' or 'docker login' write: {\"auths\": {REGISTRY: {\"auth\": ...}}}"};
  if (secret.size() > kMostCredentials) return wrong;
  const json file = json::parse(secret, nullptr, false);
  if (!file.is_object() || !file.contains("auths") || !file["auths"].is_object()) return wrong;
  // Helpers, which are programs, are not for others to name.
  json auths = json::object();
  for (const auto& [registry, entry] : file["auths"].items()) {
    const bool is_one = entry.is_object() && entry.contains("auth") && entry["auth"].is_string();
    if (is_one) auths[registry] = {{"auth", entry["auth"]}};
  }
  if (auths.empty()) return wrong;
  return json_text(json{{"auths", std::move(auths)}});
}

Result<void> check_for_gpu(const PulledImage& image, const std::string& glibc_needed) {
  const CLibrary& library = image.c_library;
  if (library.name == "glibc" && is_version_at_least(library.version, glibc_needed)) return {};
  std::string has = "no C library that programs share (it is linked statically?)";
  if (library.name == "glibc") has = "glibc " + library.version;
  if (library.name == "musl") has = "musl";
  return Error{ErrorCode::kFailedPrecondition,
               "the image has " + has + ", and a function with a GPU needs glibc " + glibc_needed +
                   " or later, with which the driver is linked; build the image on a newer "
                   "distribution, such as Debian 12"};
}

ImageStore::ImageStore(loop::EventLoop& loop, LogSink& log, Offload offload, ImageOptions options)
    : loop_(loop),
      log_(log),
      offload_(std::move(offload)),
      options_(std::move(options)),
      shelf_(options_.most) {}

ImageStore::~ImageStore() = default;

std::string ImageStore::ready(const std::string& key) const {
  return options_.folder + "/" + kReadyFolder + "/" + key;
}

Bytes ImageStore::counted(const PulledImage& image) const {
  return images_.contains(image.base) ? image.size - image.shared : image.size;
}

Result<void> ImageStore::recover() {
  std::error_code error;
  for (const char* folder : {kReadyFolder, kWorkFolder}) {
    if (!error) fs::create_directories(options_.folder + "/" + folder, error);
  }
  // Its owner's only: other users of the machine are no tenants.
  if (!error) fs::permissions(options_.folder, fs::perms::owner_all, error);
  if (error)
    return Error{ErrorCode::kInternal, "create " + options_.folder + ": " + error.message()};
  for (const auto& entry : fs::directory_iterator(options_.folder + "/" + kWorkFolder, error)) {
    remove_tree(entry.path());
  }
  for (const auto& entry : fs::directory_iterator(options_.folder + "/" + kReadyFolder, error)) {
    const std::string key = entry.path().filename();
    const auto text = read_file(entry.path().string() + "/" + kReportFile, kMostReport);
    auto image = text.ok() ? parse_pulled_image(*text) : Result<PulledImage>(text.error());
    if (!image.ok() || key_of(image->digest) != key) {
      remove_tree(entry.path());
      continue;
    }
    SharedFolder layout =
        read_layout(entry.path().string() + "/" + kLayoutFolder, hex_of(image->digest));
    if (!layout.files.empty()) layouts_[key] = std::move(layout);
    images_[key] = std::move(*image);
  }
  for (const auto& [key, image] : images_) {
    shelf_.add(key, counted(image), loop_.clock().wall_now());
  }
  return {};
}

Result<PullOrder> ImageStore::order_of(const ImageReference& reference,
                                       const std::string& local_path, const ImageAccess& access) {
  if (options_.skopeo.empty() || options_.umoci.empty()) {
    return Error{ErrorCode::kFailedPrecondition,
                 "this worker pulls no images, because it has found no " +
                     std::string(options_.skopeo.empty() ? "skopeo" : "umoci") +
                     "; 'apt install skopeo umoci' on its machine, and start it again"};
  }
  RETURN_IF_ERROR(check_registry(reference, options_.registries));
  return PullOrder{.folder = options_.folder,
                   .work = "pull-" + std::to_string(++count_),
                   .skopeo = options_.skopeo,
                   .umoci = options_.umoci,
                   .auth_file = reference.is_local() ? "" : options_.auth_file,
                   .auth = reference.is_local() ? "" : access.credentials,
                   .proves = !reference.is_local() && !access.is_known,
                   .reference = text_of(reference),
                   .local_path = local_path,
                   .plain_http = !reference.is_local() && is_of_this_host(reference.registry()),
                   .variables = options_.variables,
                   .most = options_.most,
                   .timeout = options_.timeout};
}

void ImageStore::ensure(const ImageReference& reference, const std::string& local_path,
                        const ImageAccess& access, Done done) {
  const PulledImage* image = find(reference.digest);
  const bool is_here = image != nullptr && (access.is_known || reference.is_local());
  if (is_here && is_whole(reference.digest)) return done(*image);
  // Its layout is for other nodes: the function goes on without.
  done = [this, is_here, digest = reference.digest,
          done = std::move(done)](Result<PulledImage> pulled) {
    const PulledImage* here = is_here && !pulled.ok() ? find(digest) : nullptr;
    done(here != nullptr ? *here : as_told(std::move(pulled)));
  };
  const bool is_elsewhere =
      access.is_elsewhere && check_registry(reference, options_.registries).ok();
  if (!is_elsewhere) return pull(reference, local_path, false, access, std::move(done));
  const bool is_local = reference.is_local();
  if (is_local && source_.bring) return bring(reference, local_path, access, std::move(done));
  // A registry is made to be asked by many. Other nodes are asked if it is gone, no longer has the
  // image, or does not give it to this node. A node that starts hears of others meanwhile.
  pull(reference, local_path, false, access,
       [this, reference, is_local, access,
        done = std::move(done)](const Result<PulledImage>& pulled) {
         const bool is_told =
             pulled.ok() || !source_.bring || !(is_local || may_be_elsewhere(pulled.error().code));
         if (is_told) return done(pulled);
         source_.bring(reference.digest, [this, reference, access, problem = pulled.error(),
                                          done](const Result<std::string>& layout) {
           if (layout.ok()) return pull(reference, *layout, true, access, done);
           // A node that is silent may have it, and a disk may have room later.
           const Error& elsewhere = layout.error();
           done(Error{is_retryable(elsewhere.code) ? elsewhere.code : problem.code,
                      problem.message + " (of the other nodes: " + elsewhere.message + ")"});
         });
       });
}

// Of other nodes first: what is at that path of this machine may be another image. It is looked at
// only if none of them has it, and what is wrong with it does not say that the image is.
void ImageStore::bring(const ImageReference& reference, const std::string& local_path,
                       const ImageAccess& access, Done done) {
  source_.bring(reference.digest, [this, reference, local_path, access,
                                   done = std::move(done)](const Result<std::string>& layout) {
    if (layout.ok()) return pull(reference, *layout, true, access, done);
    Error elsewhere = layout.error().with_context("image " + text_of(reference));
    if (elsewhere.code != ErrorCode::kNotFound) return done(elsewhere);
    elsewhere.code = ErrorCode::kUnavailable;
    if (local_path.empty()) return done(elsewhere);
    pull(reference, local_path, false, access, [elsewhere, done](const Result<PulledImage>& image) {
      if (image.ok()) return done(image);
      done(Error{elsewhere.code,
                 elsewhere.message + " (on this one: " + image.error().message + ")"});
    });
  });
}

void ImageStore::pull(const ImageReference& reference, const std::string& local_path, bool is_copy,
                      const ImageAccess& access, Done done) {
  // What other nodes have is another source than its registry.
  const bool is_instead = is_copy && !reference.is_local();
  const std::string name = text_of(reference) + "\n" + (is_instead ? "\n" : access.credentials);
  auto found = pulls_.find(name);
  if (found == pulls_.end()) {
    auto order = order_of(reference, local_path, access);
    if (!order.ok()) {
      if (is_copy) leave_copy(reference);
      return done(order.error());
    }
    if (queue_.size() >= kMostWaiting) {
      if (is_copy) leave_copy(reference);
      return done(Error{ErrorCode::kResourceExhausted,
                        "too many images wait to be pulled; try again later"});
    }
    auto pull = std::make_unique<Pull>();
    pull->order = std::move(*order);
    pull->order.is_copy = is_copy;
    if (is_instead) {  // no registry is asked
      pull->order.auth_file.clear();
      pull->order.auth.clear();
      pull->order.proves = false;
    }
    pull->order.keeps_layout = options_.keeps_layouts;
    found = pulls_.emplace(name, std::move(pull)).first;
    queue_.push_back(name);
  } else if (is_copy) {
    // Which was handed to this one; the pull under way has its own.
    leave_copy(reference);
  }
  found->second->waiting.push_back(std::move(done));
  start_pulls();
}

void ImageStore::leave_copy(const ImageReference& reference) {
  if (source_.release) source_.release(reference.digest);
}

void ImageStore::start_pulls() {
  while (running_ < kPullsAtOnce && !queue_.empty()) {
    const std::string name = std::move(queue_.front());
    queue_.pop_front();
    Pull& pull = *pulls_.at(name);
    pull.started = loop_.clock().now();
    ++running_;
    auto process = environments::BuildProcess::start(
        loop_, {options_.program, "image"}, to_json(pull.order),
        [this, name](Result<std::string> report) {
          ended(name, report.ok() ? parse_pulled_image(*report) : report.error());
        });
    if (process.ok()) {
      pull.process = std::move(*process);
      continue;
    }
    // Those who wait may ask again at once, so not within this turn.
    loop_.call_after(Duration(0), [this, name, error = process.error()] { ended(name, error); });
  }
}

void ImageStore::ended(const std::string& name, Result<PulledImage> image) {
  const auto found = pulls_.find(name);
  const std::shared_ptr<Pull> pull = std::move(found->second);
  const std::string& reference = pull->order.reference;
  pulls_.erase(found);
  --running_;
  const double seconds_taken = to_seconds(loop_.clock().now() - pull->started);
  if (image.ok()) {
    log_.info("image_pulled", {{"image", reference},
                               {"digest", image->digest},
                               {"bytes", static_cast<int64_t>(image->size.count)},
                               {"seconds", seconds_taken}});
    const std::string key = key_of(image->digest);
    images_[key] = *image;
    shelf_.add(key, counted(*image), loop_.clock().wall_now());
    if (const auto room = make_room(key); !room.ok()) image = room.error();
  } else {
    log_.warning(
        "image_failed",
        {{"image", reference}, {"seconds", seconds_taken}, {"error", to_string(image.error())}});
  }
  const bool has_layout = image.ok() && pull->order.keeps_layout;
  if (has_layout) {
    note_layout(pull, *image);
  } else {
    settle(*pull, image);
  }
  start_pulls();
}

// Before any other node hears of the function.
void ImageStore::note_layout(const std::shared_ptr<Pull>& pull, const PulledImage& image) {
  const std::string key = key_of(image.digest);
  auto layout = std::make_shared<SharedFolder>();
  const bool queued =
      offload_([layout, folder = ready(key) + "/" + kLayoutFolder,
                name = hex_of(image.digest)] { *layout = read_layout(folder, name); },
               [this, layout, key, pull, image] {
                 const bool is_whole = !layout->files.empty() && images_.contains(key);
                 if (is_whole) layouts_[key] = std::move(*layout);
                 settle(*pull, image);
               });
  if (!queued) settle(*pull, image);
}

void ImageStore::settle(const Pull& pull, const Result<PulledImage>& image) {
  if (pull.order.is_copy) leave_copy(*parse_image_reference(pull.order.reference));
  for (const Done& done : pull.waiting) done(image);
}

Result<void> ImageStore::make_room(const std::string& newest) {
  if (shelf_.fits(Bytes())) return {};
  std::set<std::string> used = used_;
  used.insert(newest);
  // What the last image that goes shared is counted for one that stays, so that more may have to.
  while (!shelf_.fits(Bytes())) {
    const auto evicted = shelf_.to_evict(used, Bytes(), loop_.clock().wall_now(), kGrace);
    for (const std::string& key : evicted) evict(key);
    if (evicted.empty()) break;
  }
  if (shelf_.fits(Bytes())) return {};
  const Bytes all = shelf_.size();
  if (!used_.contains(newest)) evict(newest);
  return Error{ErrorCode::kResourceExhausted, "with this image those of this worker take " +
                                                  to_string(all) + ", and it keeps at most " +
                                                  to_string(shelf_.most()) +
                                                  " (--images-size); remove functions with others"};
}

void ImageStore::evict(const std::string& key) {
  shelf_.remove(key);
  log_.info("image_removed", {{"digest", images_.at(key).digest}});
  images_.erase(key);
  layouts_.erase(key);
  // It counts for one that stays from now on, also when the same image comes again.
  for (auto& [other, image] : images_) {
    if (image.base != key) continue;
    image.base.clear();
    image.shared = Bytes();
    shelf_.resize(other, image.size);
    const auto kept =
        write_file_atomically(ready(other) + "/" + kReportFile, to_json(image), false);
    if (!kept.ok()) log_.warning("image_report_not_kept", {{"error", kept.error().message}});
  }
  // Out of the way at once, because the same one may be wanted again.
  const std::string aside =
      options_.folder + "/" + kWorkFolder + "/removed-" + std::to_string(++count_);
  std::error_code error;
  fs::rename(ready(key), aside, error);
  if (!error) offload_([aside] { remove_tree(aside); }, [] {});
}

std::vector<SharedFolder> ImageStore::layouts() const {
  std::vector<SharedFolder> all;
  for (const auto& [key, layout] : layouts_) all.push_back(layout);
  return all;
}

void ImageStore::note_shown(const std::string& layout) {
  shelf_.touch({key_of("sha256:" + layout)}, loop_.clock().wall_now());
}

const ImageStore::Pull* ImageStore::pull_of(const std::string& reference) const {
  const auto found = pulls_.lower_bound(reference + "\n");
  const bool is_it = found != pulls_.end() && found->first.starts_with(reference + "\n");
  return is_it ? found->second.get() : nullptr;
}

std::string ImageStore::progress(const std::string& reference) const {
  const Pull* pull = pull_of(reference);
  if (pull == nullptr) return "";
  const auto& process = pull->process;
  return process == nullptr ? "waits for other images to be pulled" : process->progress();
}

const PulledImage* ImageStore::find(const std::string& digest) const {
  if (digest.empty()) return nullptr;
  const auto found = images_.find(key_of(digest));
  return found == images_.end() ? nullptr : &found->second;
}

bool ImageStore::is_whole(const std::string& digest) const {
  if (find(digest) == nullptr) return false;
  return !options_.keeps_layouts || layouts_.contains(key_of(digest));
}

Result<ImageStart> ImageStore::start(const ImageCommand& command) const {
  const PulledImage* image = find(command.image.digest);
  if (image != nullptr) {
    ASSIGN_OR_RETURN(ImageStart start, start_of(*image, command));
    start.folder = ready(key_of(image->digest)) + "/" + kRootFolder;
    return start;
  }
  if (pull_of(text_of(command.image)) != nullptr) {
    return Error{ErrorCode::kUnavailable,
                 "the function's image is being pulled again; try again later"};
  }
  return Error{ErrorCode::kFailedPrecondition,
               "the function's image is not there, and could not be pulled again; deploy it again "
               "to see why"};
}

void ImageStore::collect(const std::set<std::string>& keys) {
  // Until now they were used.
  shelf_.touch(used_, loop_.clock().wall_now());
  used_.clear();
  for (const std::string& key : keys) {
    if (images_.contains(key)) used_.insert(key);
  }
}

void ImageStore::use(const std::string& key) {
  if (images_.contains(key)) used_.insert(key);
}

void ImageStore::release(const std::vector<std::string>& keys) {
  std::set<std::string> used_until_now;
  for (const std::string& key : keys) {
    if (used_.erase(key) > 0) used_until_now.insert(key);
  }
  shelf_.touch(used_until_now, loop_.clock().wall_now());
}

}  // namespace lambent::images
