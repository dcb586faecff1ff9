#include "edge/cli/model_folder_fetch.h"

#include <algorithm>
#include <filesystem>
#include <map>
#include <optional>

#include "core/base/fd.h"
#include "core/domain/volume.h"
#include "core/http/message.h"
#include "edge/cli/curl_hops.h"
#include "edge/cli/fetch_cache.h"
#include "edge/cli/file_fetch.h"
#include "edge/cli/store_listing.h"
#include "edge/cli/volume_upload.h"
#include "edge/model_files/triton_config.h"

namespace lambent::cli {
namespace {

namespace fs = std::filesystem;

constexpr const char* kSums = "SHA256SUMS";
constexpr size_t kMostPage = 16 << 20;
constexpr size_t kMostSums = 64 << 20;
constexpr size_t kMostLeftOut = 3;  // that are named

// With a '/' at its end.
std::string as_folder(const std::string& url) { return url.ends_with('/') ? url : url + "/"; }

// A text of a store, whole. `if_absent`: what a server's 404 is told with.
Result<std::string> fetch_text(const CurlRequest& request, size_t most,
                               const std::string& if_absent = "") {
  std::string text;
  const auto attempt = [&]() -> Result<void> {
    text.clear();
    const auto head =
        run_curl_hops(request, [&](const CurlHead&, std::string_view piece) -> Result<void> {
          if (text.size() + piece.size() > most) return too_large(Bytes(most));
          text += piece;
          return {};
        });
    if (!head.ok()) return head.error();
    if (head->status == 200) return {};
    Error error = error_of_status(head->status, text);
    if (error.code == ErrorCode::kNotFound) error.message += if_absent;
    return error;
  };
  RETURN_IF_ERROR(with_tries(
      attempt, [] { return Bytes(); }, kFetchTries));
  return text;
}

// What a folder is called: "scores" of "s3://models/scores/", "models" of the whole bucket.
Result<std::string> name_of_folder(const std::string& url) {
  const std::string plain = url.substr(0, url.find_last_not_of('/') + 1);
  std::string name = plain.substr(plain.rfind('/') + 1);
  if (!url.starts_with(kS3)) {
    std::string decoded;
    if (!http::percent_decode(name, decoded)) decoded.clear();
    name = decoded;
  }
  if (name.find('/') == std::string::npos && validate_volume_path(name).ok()) return name;
  return bad_url("'" + shown_url(url) + "' names no folder");
}

class FolderFetch {
 public:
  FolderFetch(Console& console, std::string url, const FetchOptions& options,
              std::shared_ptr<const CacheEntry> entry, const FolderChoice& choice)
      : console_(console),
        url_(std::move(url)),
        options_(options),
        entry_(std::move(entry)),
        choice_(choice) {}

  Result<FetchedFolder> run() {
    ASSIGN_OR_RETURN(const std::string name, name_of_folder(url_));
    RETURN_IF_ERROR(url_.starts_with(kS3) ? list() : read_sums());
    std::vector<std::string> paths;
    for (const auto& [path, size] : files_) paths.push_back(path);
    auto models = find_stored_models(paths);
    if (!models.ok()) return models.error().with_context(shown_url(url_));
    top_ = entry_->files() + "/" + name;
    std::vector<std::string> wanted;
    FetchedFolder made{
        .models = {}, .is_repository = !models->front().folder.empty(), .entry = entry_};
    RETURN_IF_ERROR(choice_.check(made.is_repository));
    for (const StoredModel& model : *models) {
      ASSIGN_OR_RETURN(ModelFolder folder, choose(model, wanted));
      made.models.push_back(std::move(folder));
    }
    RETURN_IF_ERROR(check_room(wanted));
    for (const std::string& path : wanted) RETURN_IF_ERROR(fetch(path));
    drop_others(wanted);
    return made;
  }

 private:
  // All objects below it.
  Result<void> list() {
    std::string token;
    size_t listed = 0;
    const std::string prefix = place_in_s3(url_).key;
    do {
      ASSIGN_OR_RETURN(CurlRequest request, listing_request(url_, token, options_.s3));
      prepare(request, options_);
      const auto xml = fetch_text(request, kMostPage);
      if (!xml.ok()) return xml.error().with_context("list " + shown_url(url_));
      auto page = parse_listing(*xml);
      if (!page.ok()) return page.error().with_context(shown_url(url_));
      listed += page->objects.size();
      if (listed > kMostListed) {
        return Error{ErrorCode::kResourceExhausted, shown_url(url_) + " has more than " +
                                                        std::to_string(kMostListed) +
                                                        " objects; name a folder further down"};
      }
      for (const ListedObject& object : page->objects) add_object(object, prefix);
      // One that never moves would be asked for ever.
      if (!page->next.empty() && (page->next == token || page->objects.empty())) {
        return Error{ErrorCode::kFailedPrecondition,
                     shown_url(url_) + ": the store's listing does not go on"};
      }
      token = page->next;
    } while (!token.empty());
    tell_left_out();
    if (!files_.contains(kSums)) return {};
    return read_sums();
  }

  void add_object(const ListedObject& object, const std::string& prefix) {
    if (!object.key.starts_with(prefix) || object.key.ends_with('/')) return;
    std::string path = object.key.substr(prefix.size());
    if (validate_volume_path(path).ok()) {
      files_.emplace(std::move(path), object.size);
    } else {
      left_out_.push_back(std::move(path));
    }
  }

  void tell_left_out() const {
    if (left_out_.empty()) return;
    console_.err << "lambent: warning: " << left_out_.size()
                 << " objects have keys that are no names of files and are left out:";
    for (size_t i = 0; i < std::min(kMostLeftOut, left_out_.size()); ++i) {
      console_.err << " '" << http::percent_encode(left_out_[i]) << "'";
    }
    console_.err << "\n";
  }

  // Of a web server it says which files there are, too.
  Result<void> read_sums() {
    ASSIGN_OR_RETURN(CurlRequest request, request_for(url_of(kSums), options_.s3));
    prepare(request, options_);
    const auto text =
        fetch_text(request, kMostSums,
                   "; web servers do not list folders: put there what 'sha256sum */*' writes, or "
                   "name one model (.onnx)");
    if (!text.ok()) return text.error().with_context(shown_url(url_of(kSums)));
    auto sums = parse_sums(*text);
    if (!sums.ok()) return sums.error().with_context(shown_url(url_of(kSums)));
    sums_ = *std::move(sums);
    if (url_.starts_with(kS3)) return {};
    for (const auto& [path, digest] : sums_) files_.emplace(path, std::nullopt);
    return {};
  }

  std::string url_of(const std::string& path) const {
    return url_ + (url_.starts_with(kS3) ? path : escaped_path(path));
  }

  // Fetches its config.pbtxt, by which the versions are chosen; all files of these are wanted then.
  Result<ModelFolder> choose(const StoredModel& model, std::vector<std::string>& wanted) {
    const std::string path = top_ + "/" + model.folder;
    ModelFolder folder{.path = path.substr(0, path.size() - 1), .versions = {}};
    std::error_code error;
    fs::create_directories(folder.path, error);
    if (error) return error_from_errno("create " + folder.path, error.value());
    if (model.has_config) {
      wanted.push_back(model.folder + model_files::kTritonConfig);
      RETURN_IF_ERROR(fetch(wanted.back()));
    }
    std::set<uint64_t> there;
    for (const auto& [version, files] : model.versions) there.insert(version);
    ASSIGN_OR_RETURN(const std::vector<uint64_t> chosen, choice_.versions(folder.path, there));
    for (const uint64_t version : chosen) {
      folder.versions.emplace(version, path + std::to_string(version));
      const std::vector<std::string>& files = model.versions.at(version);
      wanted.insert(wanted.end(), files.begin(), files.end());
    }
    return folder;
  }

  // Where the store told sizes, before anything comes.
  Result<void> check_room(const std::vector<std::string>& wanted) const {
    Bytes size;
    for (const std::string& path : wanted) size += files_.at(path).value_or(Bytes());
    if (size <= options_.most) return {};
    return Error{ErrorCode::kResourceExhausted,
                 shown_url(url_) + ": " + to_string(size) + " are more than the " +
                     to_string(options_.most) + " that there is room for"};
  }

  Result<void> fetch(const std::string& path) {
    if (fetched_.contains(path)) return {};
    ASSIGN_OR_RETURN(CurlRequest request, request_for(url_of(path), options_.s3));
    prepare(request, options_);
    ASSIGN_OR_RETURN(const Bytes room, room_in(entry_->path()));
    const Bytes left = options_.most > size_ ? options_.most - size_ : Bytes();
    const std::string local = top_ + "/" + path;
    FileFetch file(console_, std::move(request), local, entry_->work() + "/" + path,
                   std::min(left, room));
    const auto sum = sums_.find(path);
    const auto got = file.run(sum == sums_.end() ? "" : sum->second);
    if (!got.ok()) return got.error().with_context(shown_url(url_of(path)));
    ASSIGN_OR_RETURN(const Bytes size, size_of_file(local));
    const std::optional<Bytes>& listed = files_.at(path);
    if (listed && *listed != size) {
      return Error{ErrorCode::kAborted, shown_url(url_of(path)) + ": it has " + to_string(size) +
                                            " and had " + to_string(*listed) +
                                            " when it was listed: it changes right now"};
    }
    size_ += size;
    fetched_.insert(path);
    console_.err << shown_url(url_of(path)) << "  " << to_string(size) << "  fetched\n"
                 << std::flush;
    return {};
  }

  // What an earlier run fetched and is not wanted any more.
  void drop_others(const std::vector<std::string>& wanted) const {
    const std::set<std::string> kept(wanted.begin(), wanted.end());
    std::vector<fs::path> others;
    std::error_code ignored;
    for (const auto& file : fs::recursive_directory_iterator(top_, ignored)) {
      if (!file.is_regular_file(ignored)) continue;
      const std::string path = fs::relative(file.path(), top_, ignored).string();
      if (!kept.contains(path)) others.push_back(file.path());
    }
    for (const fs::path& other : others) {
      fs::remove(other, ignored);
      // Folders that are empty now would be versions without a model.
      for (fs::path at = other.parent_path(); at != fs::path(top_); at = at.parent_path()) {
        if (!fs::is_empty(at, ignored) || !fs::remove(at, ignored)) break;
      }
    }
  }

  Console& console_;
  const std::string url_;
  const FetchOptions& options_;
  const std::shared_ptr<const CacheEntry> entry_;  // what is fetched keeps it
  const FolderChoice& choice_;
  std::string top_;                                    // of this machine
  std::map<std::string, std::optional<Bytes>> files_;  // to their sizes, where those are known
  std::map<std::string, std::string> sums_;
  std::vector<std::string> left_out_;
  std::set<std::string> fetched_;
  Bytes size_;
};

}  // namespace

bool is_folder_url(std::string_view url) {
  if (!is_model_url(url)) return false;
  if (url.starts_with(kS3)) return !url.ends_with(".onnx");
  return url.ends_with('/') && url.find_first_of("?#") == std::string_view::npos &&
         url.substr(url.find("://") + 3).find('/') != std::string_view::npos;
}

Result<FetchedFolder> fetch_model_folder(Console& console, const std::string& url,
                                         const FetchOptions& options, const FolderChoice& choice) {
  const std::string folder = as_folder(url);
  RETURN_IF_ERROR(name_of_folder(folder));
  const auto entry = options.cache.open(folder);
  if (!entry.ok()) return entry.error().with_context(shown_url(folder));
  auto fetched = FolderFetch(console, folder, options, *entry, choice).run();
  if (!fetched.ok()) {
    if ((*entry)->is_empty()) (*entry)->drop();
    return fetched.error();
  }
  return *std::move(fetched);
}

}  // namespace lambent::cli
