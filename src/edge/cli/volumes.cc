#include "edge/cli/volumes.h"

#include <algorithm>
#include <filesystem>
#include <nlohmann/json.hpp>

#include "core/domain/volume.h"
#include "core/http/message.h"
#include "edge/cli/api_error.h"
#include "edge/cli/api_json.h"
#include "edge/cli/text_table.h"
#include "edge/cli/volume_files.h"
#include "edge/cli/volume_upload.h"

namespace lambent::cli {
namespace {

using Json = nlohmann::ordered_json;

// Without any progress.
constexpr Duration kTransferTimeout = seconds(120);
constexpr Bytes kGetPiece = Bytes::mib(16);

std::string size_text(uint64_t bytes) { return to_string(Bytes(bytes)); }

struct RemoteFile {
  std::string path;
  Bytes size;
  std::string sha256;
};

Result<std::vector<RemoteFile>> remote_files(Transport& transport, const std::string& volume,
                                             const std::string& prefix) {
  std::vector<RemoteFile> files;
  std::string after;
  for (;;) {
    ASSIGN_OR_RETURN(
        const Json page,
        ask_json(transport, "GET",
                 volume_target(volume, "/files?prefix=" + http::percent_encode(prefix) +
                                           "&after=" + http::percent_encode(after))));
    for (const Json& file : page.value("files", Json::array())) {
      files.push_back({file.value("path", ""), Bytes(file.value("size_bytes", uint64_t{0})),
                       file.value("sha256", "")});
      // It becomes a path of this machine.
      RETURN_IF_ERROR(validate_volume_path(files.back().path));
    }
    const std::string next = page.value("next", "");
    if (next.empty() || next <= after) return files;
    after = next;
  }
}

// In pieces that fit into memory: the status of an answer is known before its bytes are kept.
Result<void> get_rest(Transport& transport, const std::string& volume, const RemoteFile& file,
                      PartFile& part, TransferProgress& progress) {
  while (part.size() < file.size) {
    const uint64_t end = std::min(part.size() + kGetPiece, file.size).count;
    http::Request request{.method = "GET",
                          .target = volume_target(volume, "/files/" + escaped_path(file.path) +
                                                              "?sha256=" + file.sha256)};
    request.headers.add(
        "Range", "bytes=" + std::to_string(part.size().count) + "-" + std::to_string(end - 1));
    ASSIGN_OR_RETURN(const http::Response piece, good(transport.send(request, kTransferTimeout)));
    if (piece.status != 206 || piece.body.size() != end - part.size().count) {
      return Error{ErrorCode::kInternal, "the worker answers with other bytes than were asked for"};
    }
    RETURN_IF_ERROR(part.append(piece.body));
    progress.show("got", part.size());
  }
  return {};
}

Result<std::string> get_file(Transport& transport, Console& console, const std::string& volume,
                             const RemoteFile& file, const std::string& local) {
  TransferProgress progress(console, file.path, file.size);
  if (std::filesystem::is_regular_file(local)) {
    const auto has = measure_file(local, [&](Bytes done) { progress.show("read", done); });
    if (has.ok() && has->sha256 == file.sha256) return std::string("unchanged");
  }
  PartFile part(local);
  RETURN_IF_ERROR(part.open(file.size));
  const bool continues = part.size() > Bytes();
  RETURN_IF_ERROR(with_tries([&] { return get_rest(transport, volume, file, part, progress); },
                             [&] { return part.size(); }));
  RETURN_IF_ERROR(part.finish(file.sha256));
  return std::string(continues ? "continued" : "got");
}

// A line for each file, or all of them as JSON at the end.
class Report {
 public:
  explicit Report(Console& console) : console_(console) {}
  void add(const std::string& path, Bytes size, const std::string& sha256, const std::string& how) {
    if (console_.json) {
      files_.push_back(
          {{"path", path}, {"size_bytes", size.count}, {"sha256", sha256}, {"how", how}});
    } else {
      console_.out << path << "  " << to_string(size) << "  " << how << "\n" << std::flush;
    }
  }
  void end() {
    if (console_.json) console_.out << Json{{"files", files_}}.dump(2) << "\n";
  }

 private:
  Console& console_;
  Json files_ = Json::array();
};

int list_volumes(Transport& transport, Console& console) {
  const auto list = ask_json(transport, "GET", "/v1/volumes");
  if (!list.ok()) return fail(console, list.error());
  if (console.json) {
    console.out << list->dump(2) << "\n";
    return 0;
  }
  TextTable table({"NAME", "FILES", "SIZE", "UNFINISHED"});
  for (const Json& volume : list->value("volumes", Json::array())) {
    table.add({volume.value("name", "-"), std::to_string(volume.value("files", uint64_t{0})),
               size_text(volume.value("size_bytes", uint64_t{0})),
               size_text(volume.value("unfinished_bytes", uint64_t{0}))});
  }
  console.out << table.str();
  return 0;
}

int change(Transport& transport, Console& console, const char* method, const std::string& target,
           const std::string& name) {
  const auto changed = ask_json(transport, method, target);
  if (!changed.ok()) return fail(console, changed.error());
  console.out << (console.json ? changed->dump() : name) << "\n";
  return 0;
}

}  // namespace

int run_volumes_ls(Transport& transport, Console& console, const std::string& volume,
                   const std::string& prefix) {
  if (volume.empty()) return list_volumes(transport, console);
  const auto files = remote_files(transport, volume, prefix);
  if (!files.ok()) return fail(console, files.error());
  Json list = Json::array();
  TextTable table({"PATH", "SIZE", "SHA256"});
  for (const RemoteFile& file : *files) {
    table.add({file.path, to_string(file.size), file.sha256.substr(0, 12)});
    list.push_back({{"path", file.path}, {"size_bytes", file.size.count}, {"sha256", file.sha256}});
  }
  console.out << (console.json ? Json{{"files", list}}.dump(2) + "\n" : table.str());
  return 0;
}

int run_volumes_create(Transport& transport, Console& console, const std::string& volume) {
  return change(transport, console, "PUT", volume_target(volume), volume);
}

int run_volumes_put(Transport& transport, Console& console, const PutOptions& options) {
  const auto files = files_to_put(options.local, options.path, options.follow_links);
  if (!files.ok()) return fail(console, files.error());
  VolumeUpload upload(transport, console, options.volume);
  Report report(console);
  for (const LocalFile& file : *files) {
    const auto put = upload.put(file);
    if (!put.ok()) return fail(console, put.error().with_context("put " + file.local));
    report.add(file.path, put->measured.size, put->measured.sha256, put->how);
  }
  report.end();
  return 0;
}

int run_volumes_get(Transport& transport, Console& console, const GetOptions& options) {
  const bool is_all = options.path == ".";
  const auto listed = remote_files(transport, options.volume, is_all ? "" : options.path);
  if (!listed.ok()) return fail(console, listed.error());
  const std::string below = options.path + "/";
  Report report(console);
  size_t count = 0;
  for (const RemoteFile& file : *listed) {
    const bool is_it = file.path == options.path;
    if (!is_it && !is_all && !file.path.starts_with(below)) continue;
    ++count;
    const std::string last = std::filesystem::path(options.path).filename();
    const std::string top = options.local.empty() ? last : options.local;
    std::string local = top;
    if (!is_it) local += "/" + (is_all ? file.path : file.path.substr(below.size()));
    if (is_it && std::filesystem::is_directory(top)) local = top + "/" + last;
    const auto how = get_file(transport, console, options.volume, file, local);
    if (!how.ok()) return fail(console, how.error().with_context("get " + file.path));
    report.add(file.path, file.size, file.sha256, *how);
  }
  report.end();
  if (count > 0 || is_all) return 0;
  return fail(console,
              {ErrorCode::kNotFound,
               "volume '" + options.volume + "' has no file and no folder '" + options.path + "'"});
}

int run_volumes_rm(Transport& transport, Console& console, const std::string& volume,
                   const std::string& path) {
  if (path.empty()) return change(transport, console, "DELETE", volume_target(volume), volume);
  return change(transport, console, "DELETE", volume_target(volume, "/files/" + escaped_path(path)),
                path);
}

}  // namespace lambent::cli
