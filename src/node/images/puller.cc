#include "node/images/puller.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <sys/utsname.h>
#include <unistd.h>

#include <cerrno>
#include <filesystem>
#include <system_error>
#include <utility>

#include "core/base/fd.h"
#include "core/domain/image_function.h"
#include "node/environments/build_bounds.h"
#include "node/images/image_tree.h"
#include "node/images/pull_failure.h"
#include "node/images/shared_content.h"
#include "node/sandbox/program.h"

namespace lambent::images {
namespace {

namespace fs = std::filesystem;
using environments::ConfinedEnd;
using environments::ConfinedProgram;
using environments::Walls;

// Inside the walls.
constexpr char kWorkInside[] = "/opt/lambent/work";
constexpr char kSourceInside[] = "/opt/lambent/source";
constexpr char kSkopeoInside[] = "/opt/lambent/skopeo";
constexpr char kUmociInside[] = "/opt/lambent/umoci";
constexpr char kKeptInside[] = "/opt/lambent/kept";  // blobs of other images, only to be read
constexpr size_t kMostJson = 4 << 20;
constexpr size_t kMostAuth = 1 << 20;
constexpr size_t kMostPasswd = 1 << 20;

std::string machine() {
  utsname names{};
  return uname(&names) == 0 ? names.machine : "";
}

class Pull {
 public:
  Pull(const Walls& walls, const PullOrder& order, ImageReference reference,
       const std::function<void(std::string_view)>& tell)
      : walls_(walls),
        order_(order),
        reference_(std::move(reference)),
        tell_(tell),
        work_(order.folder + "/" + kWorkFolder + "/" + order.work),
        architecture_(architecture_of(machine())),
        bounds_({work_}, order.most, order.timeout,
                {"image " + order.reference, "--images-size", "--environment-timeout"}) {}
  ~Pull() {
    remove_tree(work_);
    remove_tree(kept());
  }
  Pull(const Pull&) = delete;
  Pull& operator=(const Pull&) = delete;

  Result<PulledImage> run() {
    RETURN_IF_ERROR(make_folders());
    PulledImage image;
    image.digest = reference_.digest;
    if (image.digest.empty() || (is_on_disk() && !is_converted_copy()) || order_.proves) {
      tell_("resolving " + order_.reference);
      ASSIGN_OR_RETURN(image.digest, resolve());
    }
    const std::string ready = order_.folder + "/" + kReadyFolder + "/" + key_of(image.digest);
    const auto report = read_file(ready + "/" + kReportFile, kMostJson);
    const bool lacks_layout = order_.keeps_layout && !fs::exists(ready + "/" + kLayoutFolder);
    if (report.ok() && !lacks_layout) return parse_pulled_image(*report);
    tell_("pulling " + order_.reference);
    others_ = ready_images(order_.folder + "/" + kReadyFolder);
    RETURN_IF_ERROR(offer_layers(image.digest));
    RETURN_IF_ERROR(copy(image.digest));
    if (report.ok()) return add_layout(*report, ready);
    ASSIGN_OR_RETURN(image.config, read_config());
    RETURN_IF_ERROR(check_machine(image.config));
    tell_("unpacking " + order_.reference);
    RETURN_IF_ERROR(unpack());
    const std::string root = work_ + "/" + kRootFolder;
    const auto passwd = read_inside(root, "/etc/passwd", kMostPasswd);
    ASSIGN_OR_RETURN(image.user, find_user(image.config.user, passwd.ok() ? *passwd : ""));
    image.c_library = c_library_of(root);
    if (!is_on_disk()) image.registry = reference_.registry();
    share(image);
    image.size = environments::size_on_disk(root);
    if (keeps_layout()) image.size += environments::size_on_disk(layout());
    RETURN_IF_ERROR(finish(image, ready));
    return image;
  }

 private:
  Result<void> make_folders() {
    remove_tree(work_);
    std::error_code error;
    for (const std::string& folder : {order_.folder + "/" + kReadyFolder, work_, work_ + "/tmp"}) {
      if (!error) fs::create_directories(folder, error);
    }
    if (error) return Error{ErrorCode::kInternal, "create " + work_ + ": " + error.message()};
    if (has_credentials()) RETURN_IF_ERROR(copy_credentials());
    return give_away({"", "/tmp"});
  }

  std::string layout() const { return work_ + "/" + kLayoutFolder; }
  std::string blobs() const { return layout() + "/blobs/sha256"; }
  std::string kept() const { return work_ + ".kept"; }
  std::string spare() const { return work_ + ".spare"; }

  // What a registry gave is kept: a later image of it brings only its other layers.
  bool keeps_layout() const { return order_.keeps_layout || !is_on_disk(); }

  // Shows skopeo the layers that images of the same registry have here, so that it does not fetch
  // them. Of that registry only: it gave them a place in this repository, where another's manifest
  // may name what the tenant has never had. They lie where the programs can only read.
  Result<void> offer_layers(const std::string& digest) {
    if (is_on_disk()) return {};
    const auto have = kept_blobs(others_, reference_.registry());
    if (have.empty()) return {};
    std::error_code error;
    for (const std::string& layer : layers_to_come(digest)) {
      const auto found = have.find(layer.substr(layer.find(':') + 1));
      if (found == have.end()) continue;
      if (!has_kept_) {
        // What reads from the registry could write here: it may have left a link.
        remove_tree(layout());
        fs::create_directories(blobs(), error);
        if (!error) fs::create_directory(kept(), error);
        if (error) return Error{ErrorCode::kInternal, "create " + kept() + ": " + error.message()};
        RETURN_IF_ERROR(give_away({"/layout", "/layout/blobs", "/layout/blobs/sha256"}));
        has_kept_ = true;
      }
      // One that goes at this moment is fetched.
      fs::create_hard_link(found->second, kept() + "/" + found->first, error);
      if (error) continue;
      fs::create_symlink(std::string(kKeptInside) + "/" + found->first,
                         blobs() + "/" + found->first, error);
    }
    return {};
  }

  // Those that the image's manifest names. What cannot be read here is told by the copy.
  std::vector<std::string> layers_to_come(const std::string& digest) {
    const auto raw = [this](const std::string& wanted) {
      std::vector<std::string> arguments = {"inspect", "--raw"};
      for (std::string& flag : of_registry("--tls-verify", "--authfile")) {
        arguments.push_back(std::move(flag));
      }
      arguments.push_back(source(wanted));
      const auto end = run(skopeo(std::move(arguments)), &pull_failure);
      if (!end.ok()) return std::string();
      const size_t begin = std::min(end->output.find('{'), end->output.size());
      return end->output.substr(begin, end->output.rfind('}') + 1 - begin);
    };
    const std::string manifest = raw(digest);
    const std::string inner = manifest_for(manifest, architecture_);
    return layers_of_manifest(inner.empty() ? manifest : raw(inner));
  }

  // Of what the image has in common with others, one remains on the disk: of its files with the
  // image that has the most of its layers, and of its blobs with any.
  void share(PulledImage& image) {
    const ReadyImage* base = closest_image(others_, image.config.layers);
    if (base != nullptr) {
      image.shared =
          share_files(work_ + "/" + kRootFolder, base->folder + "/" + kRootFolder, spare());
    }
    image.shared += share_blobs(base == nullptr ? "" : base->folder);
    if (image.shared.count > 0) image.base = fs::path(base->folder).filename();
  }

  // What is shared with `base`. The programs have ended: nothing changes the layout any more.
  Bytes share_blobs(const std::string& base) {
    Bytes shared;
    for (const std::string& folder : {layout(), layout() + "/blobs", blobs()}) {
      if (!is_plain_folder(folder)) return shared;
    }
    auto have = kept_blobs(others_);
    std::error_code error;
    std::vector<std::string> names;
    for (fs::directory_iterator each(blobs(), error), end; !error && each != end;
         each.increment(error)) {
      names.push_back(each->path().filename());
    }
    for (const std::string& name : names) {
      const std::string offered = kept() + "/" + name, place = blobs() + "/" + name;
      const bool is_offered = has_kept_ && is_plain_file(offered);
      if (!is_offered && !have.contains(name)) continue;
      if (!replace_by_link(is_offered ? offered : have.at(name), place, spare())) continue;
      const std::string in_base = base + "/" + kLayoutFolder + "/blobs/sha256/" + name;
      if (!base.empty() && fs::equivalent(place, in_base, error) && !error) {
        shared += environments::size_on_disk(place);
      }
    }
    return shared;
  }

  bool is_on_disk() const { return reference_.is_local() || order_.is_copy; }

  // A layout has the digest that the image has where it came from, but of Docker's archives, which
  // have other manifests, and of registries, whose digests may name an index of several.
  bool is_converted_copy() const {
    return order_.is_copy && (reference_.transport == ImageTransport::kDockerArchive ||
                              reference_.transport == ImageTransport::kRegistry);
  }

  // Its root was unpacked by a worker that kept no layout.
  Result<PulledImage> add_layout(const std::string& report, const std::string& ready) {
    ASSIGN_OR_RETURN(PulledImage image, parse_pulled_image(report));
    (void)share_blobs("");
    image.size += environments::size_on_disk(layout());
    sync();
    std::error_code error;
    fs::rename(layout(), ready + "/" + kLayoutFolder, error);
    // As in finish().
    if (error && fs::exists(ready + "/" + kLayoutFolder)) return image;
    if (error) return Error{ErrorCode::kInternal, "move to " + ready + ": " + error.message()};
    RETURN_IF_ERROR(write_file_atomically(ready + "/" + kReportFile, to_json(image), false));
    return image;
  }

  bool has_credentials() const { return !order_.auth_file.empty() || !order_.auth.empty(); }

  // The programs are another user, who cannot read the operator's own file.
  Result<void> copy_credentials() {
    auto text = order_.auth.empty() ? read_file(order_.auth_file, kMostAuth)
                                    : Result<std::string>(order_.auth);
    if (!text.ok()) return text.error().with_context("--registry-auth");
    const OwnedFd file(
        open((work_ + "/auth.json").c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600));
    if (!file.valid()) return error_from_errno("create auth.json", errno);
    RETURN_IF_ERROR(write_all(file.get(), *text));
    return give_away({"/auth.json"});
  }

  Result<void> give_away(std::initializer_list<const char*> names) {
    if (!walls_.change_user) return {};
    for (const char* name : names) {
      if (lchown((work_ + name).c_str(), sandbox::kNobody, sandbox::kNobody) != 0) {
        return error_from_errno("give away " + work_ + name, errno);
      }
    }
    return {};
  }

  // `digest` empty: as the reference says.
  std::string source(const std::string& digest) const {
    if (order_.is_copy) return std::string("oci:") + kSourceInside + ":" + kLayoutTag;
    const std::string tag = reference_.tag.empty() ? "" : ":" + reference_.tag;
    switch (reference_.transport) {
      case ImageTransport::kOciLayout:
        return std::string("oci:") + kSourceInside + tag;
      case ImageTransport::kOciArchive:
        return std::string("oci-archive:") + kSourceInside + tag;
      case ImageTransport::kDockerArchive:
        return std::string("docker-archive:") + kSourceInside + tag;
      case ImageTransport::kRegistry:
        break;
    }
    return "docker://" + reference_.name + (digest.empty() ? tag : "@" + digest);
  }

  ConfinedProgram skopeo(std::vector<std::string> arguments) const {
    ConfinedProgram program;
    program.argv = {
        kSkopeoInside,     "--insecure-policy", "--override-os", "linux",
        "--override-arch", architecture_,       "--tmpdir",      std::string(kWorkInside) + "/tmp"};
    program.argv.insert(program.argv.end(), arguments.begin(), arguments.end());
    program.environment = environment();
    for (const std::string& variable : order_.variables) {
      const size_t equals = variable.find('=');
      if (equals == std::string::npos) continue;
      program.environment[variable.substr(0, equals)] = variable.substr(equals + 1);
    }
    program.binds = {{work_, kWorkInside, true}, {order_.skopeo, kSkopeoInside}};
    if (is_on_disk()) {
      sandbox::Bind bind{order_.local_path, kSourceInside};
      bind.without_links = true;
      program.binds.push_back(bind);
    }
    if (has_kept_) program.binds.push_back({kept(), kKeptInside});
    program.network = !is_on_disk();
    return program;
  }

  static std::map<std::string, std::string> environment() {
    return {{"HOME", "/tmp"},
            {"PATH", "/usr/local/bin:/usr/bin:/bin"},
            {"LANG", "C.UTF-8"},
            {"XDG_RUNTIME_DIR", "/tmp"}};
  }

  std::vector<std::string> of_registry(const char* tls_flag, const char* auth_flag) const {
    std::vector<std::string> flags;
    if (is_on_disk()) return flags;
    if (order_.plain_http) flags.push_back(std::string(tls_flag) + "=false");
    if (has_credentials()) {
      flags.insert(flags.end(), {auth_flag, std::string(kWorkInside) + "/auth.json"});
    }
    return flags;
  }

  using Failure = Error (*)(const std::string& reference, std::string_view output);

  Result<ConfinedEnd> run(const ConfinedProgram& program, Failure failure, bool tells = false) {
    const environments::ConfinedWatch watch = {.on_line =
                                                   [this, tells](std::string_view line) {
                                                     if (tells && line.starts_with("Copying blob "))
                                                       tell_(line.substr(0, 40));
                                                   },
                                               .stop = [this] { return bounds_.check(); }};
    ASSIGN_OR_RETURN(ConfinedEnd end, environments::run_confined(walls_, program, watch));
    if (end.exit_code != 0) return failure(order_.reference, end.output);
    return end;
  }

  Result<std::string> resolve() {
    std::vector<std::string> arguments = {"inspect", "--no-tags", "--format", "{{.Digest}}"};
    for (std::string& flag : of_registry("--tls-verify", "--authfile")) {
      arguments.push_back(std::move(flag));
    }
    arguments.push_back(source(reference_.is_local() ? "" : reference_.digest));
    ASSIGN_OR_RETURN(const ConfinedEnd end, run(skopeo(std::move(arguments)), &pull_failure));
    const size_t at = end.output.find("sha256:");
    const std::string digest = at == std::string::npos ? "" : end.output.substr(at, 71);
    if (!is_image_digest(digest)) return pull_failure(order_.reference, end.output);
    if (!reference_.digest.empty() && digest != reference_.digest) {
      return Error{ErrorCode::kFailedPrecondition,
                   "image " + order_.reference + ": it is another image now, " + digest};
    }
    return digest;
  }

  Result<void> copy(const std::string& digest) {
    std::vector<std::string> arguments = {"copy"};
    for (std::string& flag : of_registry("--src-tls-verify", "--src-authfile")) {
      arguments.push_back(std::move(flag));
    }
    arguments.push_back(source(digest));
    arguments.push_back(std::string("oci:") + kWorkInside + "/" + kLayoutFolder + ":" + kLayoutTag);
    const auto end = run(skopeo(std::move(arguments)), &pull_failure, true);
    std::error_code ignored;
    fs::remove(work_ + "/auth.json", ignored);
    return end.ok() ? Result<void>{} : end.error();
  }

  Result<std::string> read_blob(const std::string& digest) const {
    return read_inside(layout(), "/blobs/sha256/" + digest.substr(7), kMostJson);
  }

  Result<ImageConfig> read_config() const {
    ASSIGN_OR_RETURN(const std::string index, read_inside(layout(), "/index.json", kMostJson));
    ASSIGN_OR_RETURN(const std::string manifest_digest, parse_image_index(index));
    ASSIGN_OR_RETURN(const std::string manifest, read_blob(manifest_digest));
    ASSIGN_OR_RETURN(const std::string config_digest, parse_image_manifest(manifest));
    ASSIGN_OR_RETURN(const std::string config, read_blob(config_digest));
    return parse_image_config(config);
  }

  Result<void> check_machine(const ImageConfig& config) const {
    const bool fits = (config.os.empty() || config.os == "linux") &&
                      (config.architecture.empty() || config.architecture == architecture_);
    if (fits) return {};
    return Error{ErrorCode::kInvalidArgument, "image " + order_.reference + ": it is for " +
                                                  config.os + "/" + config.architecture +
                                                  ", and this machine is linux/" + architecture_};
  }

  // As an ordinary user, to whom all files come to belong: no other user, no device and no
  // capability of the image gets onto the disk.
  Result<void> unpack() {
    ConfinedProgram program;
    program.argv = {kUmociInside,
                    "raw",
                    "unpack",
                    "--rootless",
                    "--image",
                    std::string(kWorkInside) + "/" + kLayoutFolder + ":" + kLayoutTag,
                    std::string(kWorkInside) + "/" + kRootFolder};
    program.environment = environment();
    program.binds = {{work_, kWorkInside, true}, {order_.umoci, kUmociInside}};
    if (has_kept_) program.binds.push_back({kept(), kKeptInside});
    const auto end = run(program, &unpack_failure);
    if (!end.ok()) return end.error();
    if (!keeps_layout()) remove_tree(layout());
    remove_tree(work_ + "/tmp");
    // An image without a layer has no tree.
    std::error_code error;
    fs::create_directory(work_ + "/" + kRootFolder, error);
    return give_away({(std::string("/") + kRootFolder).c_str()});
  }

  // From here on it is the worker's.
  Result<void> finish(const PulledImage& image, const std::string& ready) {
    RETURN_IF_ERROR(bounds_.check_all());
    if (image.size > order_.most) {
      return Error{ErrorCode::kInvalidArgument,
                   "image " + order_.reference + ": it takes " + to_string(image.size) +
                       ", and the worker's --images-size allows " + to_string(order_.most)};
    }
    RETURN_IF_ERROR(write_file_atomically(work_ + "/" + kReportFile, to_json(image), false));
    if (walls_.change_user && chown(work_.c_str(), 0, 0) != 0) {
      return error_from_errno("take back " + work_, errno);
    }
    std::error_code error;
    fs::permissions(work_, fs::perms(0755), error);
    sync();
    error.clear();
    fs::rename(work_, ready, error);
    // Another pull of the same image, by another name, may have been first.
    if (error && !fs::exists(ready + "/" + kReportFile)) {
      return Error{ErrorCode::kInternal, "move to " + ready + ": " + error.message()};
    }
    return {};
  }

  const Walls& walls_;
  const PullOrder& order_;
  const ImageReference reference_;
  const std::function<void(std::string_view)>& tell_;
  const std::string work_;
  const std::string architecture_;
  environments::BuildBounds bounds_;
  std::vector<ReadyImage> others_;
  bool has_kept_ = false;  // layers of others, which the programs may read
};

}  // namespace

Result<PulledImage> pull_image(const Walls& walls, const PullOrder& order,
                               const std::function<void(std::string_view)>& tell) {
  ASSIGN_OR_RETURN(ImageReference reference, parse_image_reference(order.reference));
  return Pull(walls, order, std::move(reference), tell).run();
}

}  // namespace lambent::images
