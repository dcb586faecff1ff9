#include "edge/cli/objects.h"

#include <iostream>
#include <iterator>
#include <nlohmann/json.hpp>

#include "core/base/fd.h"
#include "core/domain/limits.h"
#include "edge/cli/api_error.h"
#include "edge/cli/text_table.h"

namespace lambent::cli {
namespace {

using Json = nlohmann::ordered_json;

std::string target_of(const std::string& id) { return "/v1/objects/" + http::percent_encode(id); }

Json list_all(Transport& transport, Result<void>& outcome) {
  Json all = Json::array();
  std::string after;
  while (true) {
    const std::string query = after.empty() ? "" : "?after=" + http::percent_encode(after);
    const auto page =
        good(transport.send({.method = "GET", .target = "/v1/objects" + query}, seconds(60)));
    if (!page.ok()) {
      outcome = page.error();
      return all;
    }
    const Json body = Json::parse(page->body, nullptr, false);
    const bool is_list = body.is_object() && body.contains("objects") && body["objects"].is_array();
    // A page that does not go on would never end.
    const bool goes_on = is_list && body.contains("next") && body["next"].is_string() &&
                         body["next"] != after && !body["objects"].empty();
    if (!is_list || (body.contains("next") && !goes_on)) {
      outcome = Error{ErrorCode::kInternal,
                      "the worker's list of objects is none; is that a Lambent worker?"};
      return all;
    }
    for (const Json& object : body["objects"]) all.push_back(object);
    if (!goes_on) return all;
    after = body["next"].get<std::string>();
  }
}

}  // namespace

int run_objects_put(Transport& transport, Console& console, const PutObjectOptions& options) {
  http::Request request{.method = options.id.empty() ? "POST" : "PUT",
                        .target = options.id.empty() ? "/v1/objects" : target_of(options.id)};
  if (options.file == "-") {
    request.body.assign(std::istreambuf_iterator<char>(std::cin), {});
  } else {
    auto bytes = read_file(options.file, limits::kHttpObject.count);
    if (!bytes.ok() && bytes.error().code == ErrorCode::kResourceExhausted) {
      return fail(console, {ErrorCode::kOutOfRange,
                            options.file + " has more than the " + to_string(limits::kHttpObject) +
                                " that an object has over HTTP; larger ones go through the " +
                                "worker's object socket, as lambent.client in Python does"});
    }
    if (!bytes.ok()) return fail(console, bytes.error());
    request.body = std::move(*bytes);
  }
  request.headers.add("Content-Type", "application/octet-stream");
  if (!options.datatype.empty()) request.headers.add("X-Lambent-Datatype", options.datatype);
  if (!options.shape.empty()) request.headers.add("X-Lambent-Shape", options.shape);
  if (options.time_to_live_s) {
    request.headers.add("X-Lambent-Ttl", std::to_string(*options.time_to_live_s));
  }
  const auto response = good(transport.send(request, seconds(300)));
  if (!response.ok()) return fail(console, response.error());
  const Json stored = Json::parse(response->body, nullptr, false);
  if (!stored.is_object()) {
    return fail(console, {ErrorCode::kInternal, "the worker's answer is no JSON"});
  }
  if (console.json) {
    console.out << stored.dump(2) << "\n";
  } else {
    console.out << stored.value("object", "") << "\n";
  }
  return 0;
}

int run_objects_get(Transport& transport, Console& console, const GetObjectOptions& options) {
  const http::Request request{
      .method = "GET", .target = target_of(options.id) + "?wait=" + std::to_string(options.wait_s)};
  const auto response = good(transport.send(request, from_seconds(options.wait_s) + seconds(300)));
  if (!response.ok()) return fail(console, response.error());
  if (options.output) {
    const auto written = write_file_atomically(*options.output, response->body, false);
    if (!written.ok()) return fail(console, written.error());
  } else {
    console.out << response->body;
    console.out.flush();
  }
  console.err << response->headers.get("x-lambent-datatype") << " "
              << response->headers.get("x-lambent-shape") << ", " << response->body.size()
              << " bytes\n";
  return 0;
}

int run_objects_ls(Transport& transport, Console& console) {
  Result<void> outcome;
  const Json all = list_all(transport, outcome);
  if (!outcome.ok()) return fail(console, outcome.error());
  if (console.json) {
    console.out << Json{{"objects", all}}.dump(2) << "\n";
    return 0;
  }
  TextTable table({"OBJECT", "STATE", "PLACE", "TYPE", ">BYTES", ">REFS", ">EXPIRES"});
  for (const Json& object : all) {
    const bool exists = object.contains("bytes");
    const bool expires = object.contains("expires_in_seconds");
    table.add({object.value("object", ""), object.value("state", ""), object.value("place", "-"),
               exists ? object.value("datatype", "") + " " + object["shape"].dump() : "-",
               exists ? object["bytes"].dump() : "-", object["references"].dump(),
               expires ? human_seconds(object["expires_in_seconds"].get<double>()) : "-"});
  }
  console.out << table.str();
  return 0;
}

int run_objects_rm(Transport& transport, Console& console, const std::vector<std::string>& ids) {
  Json removed = Json::array();
  int exit_code = 0;
  for (const std::string& id : ids) {
    const auto response =
        good(transport.send({.method = "DELETE", .target = target_of(id)}, seconds(60)));
    if (response.ok()) {
      removed.push_back(id);
      if (!console.json) console.out << "removed " << id << "\n";
    } else {
      const int failed = fail(console, response.error().with_context("removing " + id));
      if (exit_code == 0) exit_code = failed;
    }
  }
  if (console.json) console.out << Json{{"removed", removed}}.dump(2) << "\n";
  return exit_code;
}

}  // namespace lambent::cli
