#include "sim/sweep/sweep_file.h"

#include <algorithm>
#include <nlohmann/json.hpp>

#include "core/base/json_text.h"

namespace lambent::sweep {
namespace {

using Json = nlohmann::ordered_json;

constexpr int kFormat = 1;

std::string line(const Json& json) { return json_text(json) + "\n"; }

Json json_of(const Grid& grid) {
  Json axes = Json::array();
  for (const Axis& axis : grid.axes) axes.push_back({{"name", axis.name}, {"values", axis.values}});
  return {{"axes", axes}, {"first_seed", grid.first_seed}, {"seeds", grid.seeds}};
}

// nlohmann's accessors throw for a value of another type; one place turns that into nothing.
template <typename Read>
bool reads(Read read) {
  try {
    read();
    return true;
  } catch (const Json::exception&) {
    return false;
  }
}

bool read_header(const Json& json, SweepHeader& header) {
  return reads([&] {
    header.version = json.at("version").get<std::string>();
    header.arguments = json.at("arguments").get<std::vector<std::string>>();
    const Json& grid = json.at("grid");
    header.grid.first_seed = grid.at("first_seed").get<uint64_t>();
    header.grid.seeds = grid.at("seeds").get<uint64_t>();
    for (const Json& axis : grid.at("axes")) {
      header.grid.axes.push_back(
          {axis.at("name").get<std::string>(), axis.at("values").get<std::vector<std::string>>()});
    }
  });
}

bool read_result(const Json& json, const Grid& grid, CellResult& result) {
  return reads([&] {
    const Json& cell = json.at("cell");
    for (const Axis& axis : grid.axes) {
      result.cell.values.push_back(cell.at(axis.name).get<std::string>());
    }
    result.cell.seed = json.at("seed").get<uint64_t>();
    if (json.contains("assumptions")) {
      result.assumptions = json.at("assumptions").get<std::vector<std::string>>();
    }
    for (const Metric& metric : metrics()) {
      const Json& figure = json.at("figures").at(std::string(metric.name));
      result.figures.push_back(figure.is_null() ? std::nullopt
                                                : std::optional(figure.get<double>()));
    }
  });
}

bool belongs(const Cell& cell, const Grid& grid) {
  for (size_t i = 0; i < grid.axes.size(); ++i) {
    const auto& values = grid.axes[i].values;
    if (std::find(values.begin(), values.end(), cell.values[i]) == values.end()) return false;
  }
  return cell.seed >= grid.first_seed && cell.seed - grid.first_seed < grid.seeds;
}

}  // namespace

std::string line_of(const SweepHeader& header) {
  return line({{"sweep", kFormat},
               {"version", header.version},
               {"arguments", header.arguments},
               {"grid", json_of(header.grid)}});
}

std::string line_of(const CellResult& result, const Grid& grid) {
  Json cell = Json::object();
  for (size_t i = 0; i < grid.axes.size(); ++i) cell[grid.axes[i].name] = result.cell.values[i];
  Json figures = Json::object();
  for (size_t i = 0; i < metrics().size(); ++i) {
    figures[std::string(metrics()[i].name)] = result.figures[i] ? Json(*result.figures[i]) : Json();
  }
  Json text = {{"cell", cell}, {"seed", result.cell.seed}, {"figures", figures}};
  if (!result.assumptions.empty()) text["assumptions"] = result.assumptions;
  return line(text);
}

Result<SweepFile> read_sweep(std::string_view text, const std::string& file) {
  SweepFile sweep;
  size_t number = 0;
  const auto bad = [&](ErrorCode code, const std::string& why) {
    return Error{code, file + ":" + std::to_string(number) + ": " + why + "; give another --out"};
  };
  while (sweep.whole_bytes < text.size()) {
    const size_t end = text.find('\n', sweep.whole_bytes);
    if (end == std::string_view::npos) break;  // cut off
    ++number;
    const auto json =
        Json::parse(text.substr(sweep.whole_bytes, end - sweep.whole_bytes), nullptr, false);
    if (json.is_discarded() || !json.is_object()) {
      return bad(ErrorCode::kInvalidArgument, "not a line of a sweep");
    }
    if (number == 1) {
      if (!json.contains("sweep")) {
        return bad(ErrorCode::kInvalidArgument, "not the file of a sweep");
      }
      if (json["sweep"] != kFormat) {
        return bad(ErrorCode::kInvalidArgument, "a sweep of another format");
      }
      if (!read_header(json, sweep.header) || !sweep.header.grid.check().ok()) {
        return bad(ErrorCode::kInvalidArgument, "a header that makes no sense");
      }
    } else {
      CellResult result;
      if (!read_result(json, sweep.header.grid, result)) {
        return bad(ErrorCode::kInvalidArgument, "not the figures of a cell");
      }
      if (!belongs(result.cell, sweep.header.grid)) {
        return bad(ErrorCode::kDataLoss, "a cell that this sweep does not have");
      }
      sweep.results.push_back(std::move(result));
    }
    sweep.whole_bytes = end + 1;
  }
  return sweep;
}

std::string difference(const SweepHeader& found, const SweepHeader& wanted) {
  if (found.version != wanted.version) {
    return "it was made by version " + found.version + ", this is " + wanted.version;
  }
  if (found.arguments != wanted.arguments) return "it was made with other flags";
  if (found.grid != wanted.grid) return "it is of another grid";
  return "";
}

}  // namespace lambent::sweep
