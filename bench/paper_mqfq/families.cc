#include "bench/paper_mqfq/families.h"

#include <algorithm>
#include <cmath>
#include <ctime>
#include <filesystem>
#include <map>

#include "bench/json.h"
#include "sim/workload/csv.h"
#include "sim/workload/spreading.h"

namespace lambent::paper_mqfq {
namespace {

using workload::Arrival;
using workload::Catalogue;
using workload::CatalogueEntry;

constexpr size_t kFunctions = 24;
constexpr double kMostSeconds = 600;
constexpr size_t kLeastArrivals = 300;
// Of the invocations, of one function: mqfq24 has 0.19 to 0.41.
constexpr double kLargestShare = 0.45;

// A function as it was recorded: either how often it was called in each of its minutes, or when.
struct Recorded {
  std::string name;
  double warm_s = -1;  // negative: not recorded
  std::vector<uint64_t> counts;
  std::vector<double> instants_s;

  double calls() const {
    if (counts.empty()) return static_cast<double>(instants_s.size());
    double sum = 0;
    for (const uint64_t count : counts) sum += static_cast<double>(count);
    return sum;
  }
};

template <typename T>
void shuffle(std::vector<T>& values, Random& random) {
  for (size_t i = values.size(); i > 1; --i) std::swap(values[i - 1], values[random.below(i)]);
}

// Goes through the rows of a file; `row` gets the fields by the columns that it asked for.
template <typename Row>
Result<void> read_rows(const std::string& path, const std::vector<std::string>& names, Row row) {
  ASSIGN_OR_RETURN(const auto lines, workload::open_lines(path));
  ASSIGN_OR_RETURN(workload::RowReader rows, workload::RowReader::start(*lines, path));
  std::vector<size_t> columns;
  for (const std::string& name : names) {
    ASSIGN_OR_RETURN(const size_t column, rows.required_column(name));
    columns.push_back(column);
  }
  workload::BadRows bad(path);
  std::vector<std::string_view> fields, chosen;
  for (;;) {
    ASSIGN_OR_RETURN(const bool more, rows.next(fields, bad));
    if (!more) break;
    chosen.clear();
    for (const size_t column : columns) chosen.push_back(fields[column]);
    if (!row(chosen, fields, rows.header())) bad.add(rows.line(), "not as the others are");
  }
  return bad.verdict();
}

// Counts per minute: the columns whose names are numbers.
Result<std::vector<Recorded>> read_counts(const std::string& path, const std::string& name) {
  std::vector<Recorded> all;
  RETURN_IF_ERROR(
      read_rows(path, {name}, [&](const auto& chosen, const auto& fields, const auto& header) {
        Recorded one{.name = std::string(chosen[0])};
        for (size_t i = 0; i < fields.size(); ++i) {
          if (!workload::whole_number_of(header[i])) continue;
          const auto count = workload::whole_number_of(fields[i]);
          if (!count) return false;
          one.counts.push_back(*count);
        }
        all.push_back(std::move(one));
        return true;
      }));
  return all;
}

// As many from each quarter of the functions by how often they are called: as mqfq24.
std::vector<Recorded> draw_by_quarter(std::vector<Recorded> all, Random& random) {
  std::erase_if(all, [](const Recorded& one) { return one.calls() < 1; });
  std::ranges::stable_sort(
      all, [](const Recorded& a, const Recorded& b) { return a.calls() < b.calls(); });
  std::vector<Recorded> drawn;
  for (size_t quarter = 0; quarter < 4; ++quarter) {
    const auto begin = all.begin() + static_cast<ptrdiff_t>(all.size() * quarter / 4);
    const auto end = all.begin() + static_cast<ptrdiff_t>(all.size() * (quarter + 1) / 4);
    std::vector<Recorded> members(begin, end);
    shuffle(members, random);
    members.resize(std::min(members.size(), kFunctions / 4));
    drawn.insert(drawn.end(), members.begin(), members.end());
  }
  return drawn;
}

// Each minute becomes a second, the calls of a minute spread uniformly over it.
void compress_minutes(std::vector<Recorded>& functions, Random& random) {
  for (Recorded& one : functions) {
    std::vector<Duration> instants;
    for (size_t minute = 0; minute < one.counts.size(); ++minute) {
      instants.clear();
      workload::spread(workload::Spreading::kUniform, one.counts[minute], seconds(1), random,
                       instants);
      for (const Duration at : instants) {
        one.instants_s.push_back(static_cast<double>(minute) + to_seconds(at));
      }
    }
    one.counts.clear();
  }
}

// All times multiplied by `stretch`, up to the end.
std::vector<Arrival> stretched(const std::vector<Recorded>& functions, double stretch,
                               double end_s) {
  std::vector<Arrival> arrivals;
  for (uint32_t i = 0; i < functions.size(); ++i) {
    for (const double at_s : functions[i].instants_s) {
      if (at_s * stretch < end_s) arrivals.push_back({from_seconds(at_s * stretch), i});
    }
  }
  std::ranges::sort(arrivals);
  return arrivals;
}

// Time runs at another speed so that `load` is asked for: the gaps keep their proportions, as
// where the paper scaled its functions' frequencies.
Workload scaled_to_load(const std::string& name, const std::string& family,
                        const std::vector<Recorded>& functions,
                        const std::vector<CatalogueEntry>& entries, double load) {
  Workload workload{.name = name, .family = family, .entries = entries};
  double length_s = 1;
  for (const Recorded& one : functions) {
    workload.functions.push_back({.name = one.name});
    for (const double at_s : one.instants_s) length_s = std::max(length_s, at_s);
  }
  double stretch = 1;
  for (int i = 0; i < 30; ++i) {
    workload.length_s = std::min(kMostSeconds, length_s * stretch);
    workload.arrivals = stretched(functions, stretch, workload.length_s);
    const double is = workload.load();
    if (std::abs(is / load - 1) < 0.02) break;
    // Half of the way, for what is cut off changes with it.
    stretch *= std::sqrt(std::max(is, 1e-3) / load);
  }
  return workload;
}

std::vector<CatalogueEntry> entries_of(const std::vector<Recorded>& functions,
                                       const Catalogue& catalogue, Random& random) {
  std::vector<workload::TraceFunction> wanted;
  for (const Recorded& one : functions) {
    workload::TraceFunction function{.name = one.name};
    if (one.warm_s >= 0) function.recorded_s = one.warm_s;
    wanted.push_back(function);
  }
  const auto assigned = workload::assign_entries(wanted, catalogue, random);
  std::vector<CatalogueEntry> entries;
  for (const CatalogueEntry* entry : *assigned) entries.push_back(*entry);
  return entries;
}

double largest_share(const Workload& workload) {
  std::map<uint32_t, double> counts;
  double most = 0;
  for (const Arrival& arrival : workload.arrivals) {
    most = std::max(most, ++counts[arrival.function]);
  }
  return most / std::max<double>(1, static_cast<double>(workload.arrivals.size()));
}

// Draws until no function has nearly all of the invocations and there are enough of them.
Workload drawn_from(const std::vector<Recorded>& all, const std::string& family, double load,
                    uint64_t seed, const Catalogue& catalogue) {
  SeededRandom random(seed * 7919 + 11);
  Workload workload;
  for (int attempt = 0; attempt < 200; ++attempt) {
    std::vector<Recorded> functions = draw_by_quarter(all, random);
    double calls = 0, most = 0;
    for (const Recorded& one : functions) {
      calls += one.calls();
      most = std::max(most, one.calls());
    }
    if (most > kLargestShare * calls) continue;  // without spreading millions of them
    compress_minutes(functions, random);
    workload = scaled_to_load(family + "-" + std::to_string(seed) + "-" + bench::number(load),
                              family, functions, entries_of(functions, catalogue, random), load);
    if (workload.arrivals.size() >= kLeastArrivals && largest_share(workload) <= kLargestShare &&
        workload.length_s >= kMostSeconds / 2) {
      break;
    }
  }
  return workload;
}

Result<std::vector<Recorded>> read_azure2019_8h(const std::string& folder) {
  ASSIGN_OR_RETURN(auto all,
                   read_counts(folder + "/azure2019_8h/invocations.csv.gz", "HashFunction"));
  std::map<std::string, double> warm_s;
  RETURN_IF_ERROR(read_rows(folder + "/azure2019_8h/durations.csv.gz",
                            {"HashFunction", "percentile_Average_25"},
                            [&](const auto& chosen, const auto&, const auto&) {
                              const auto ms = workload::number_of(chosen[1]);
                              if (ms) warm_s[std::string(chosen[0])] = *ms / 1e3;
                              return ms.has_value();
                            }));
  for (Recorded& one : all) {
    const auto found = warm_s.find(one.name);
    one.warm_s = found == warm_s.end() ? 0 : found->second;
  }
  return all;
}

// The rows and their durations do not belong together: each draws one.
Result<std::vector<Recorded>> read_azure2019_day(const std::string& folder) {
  ASSIGN_OR_RETURN(auto all, read_counts(folder + "/azure2019_day/invocations.csv.gz", "fid"));
  std::vector<double> durations_s;
  RETURN_IF_ERROR(read_rows(folder + "/azure2019_day/marginal_durations_ms.csv.gz",
                            {"percentile_Average_25"},
                            [&](const auto& chosen, const auto&, const auto&) {
                              const auto ms = workload::number_of(chosen[0]);
                              if (ms) durations_s.push_back(*ms / 1e3);
                              return ms.has_value();
                            }));
  if (durations_s.empty()) return Error{ErrorCode::kInvalidArgument, folder + " has no durations"};
  SeededRandom random(2019);
  for (Recorded& one : all) {
    one.warm_s = durations_s[random.below(durations_s.size())];
    one.counts.resize(600);  // the first ten hours of the day
  }
  return all;
}

std::vector<Recorded> busiest(std::map<std::string, Recorded> by_name) {
  std::vector<Recorded> all;
  for (auto& [name, one] : by_name) all.push_back(std::move(one));
  std::ranges::stable_sort(
      all, [](const Recorded& a, const Recorded& b) { return a.calls() > b.calls(); });
  all.resize(std::min(all.size(), kFunctions));
  return all;
}

Result<std::vector<Recorded>> read_azure2021(const std::string& folder) {
  std::map<std::string, Recorded> by_name;
  std::map<std::string, std::vector<double>> durations_s;
  RETURN_IF_ERROR(read_rows(folder + "/azure2021_sample/invocations.csv.gz",
                            {"func", "end_timestamp", "duration"},
                            [&](const auto& chosen, const auto&, const auto&) {
                              const auto end_s = workload::number_of(chosen[1]);
                              const auto took_s = workload::number_of(chosen[2]);
                              if (!end_s || !took_s) return false;
                              const std::string name(chosen[0].substr(0, 8));
                              by_name[name].name = name;
                              by_name[name].instants_s.push_back(std::max(0.0, *end_s - *took_s));
                              durations_s[name].push_back(*took_s);
                              return true;
                            }));
  for (auto& [name, one] : by_name) {
    std::ranges::sort(durations_s[name]);
    one.warm_s = durations_s[name][durations_s[name].size() / 4];
  }
  return busiest(std::move(by_name));
}

Result<std::vector<Recorded>> read_iluvatar(const std::string& folder) {
  std::map<std::string, Recorded> by_name;
  RETURN_IF_ERROR(read_rows(folder + "/iluvatar/paper-repro-trace.csv.gz",
                            {"func_name", "invoke_time_ms"},
                            [&](const auto& chosen, const auto&, const auto&) {
                              const auto at_ms = workload::number_of(chosen[1]);
                              if (!at_ms) return false;
                              const std::string name(chosen[0]);
                              by_name[name].name = name;
                              by_name[name].instants_s.push_back(*at_ms / 1e3);
                              return true;
                            }));
  RETURN_IF_ERROR(read_rows(folder + "/iluvatar/paper-repro-metadata.csv",
                            {"func_name", "warm_dur_ms"},
                            [&](const auto& chosen, const auto&, const auto&) {
                              const auto ms = workload::number_of(chosen[1]);
                              const auto found = by_name.find(std::string(chosen[0]));
                              if (ms && found != by_name.end()) found->second.warm_s = *ms / 1e3;
                              return ms.has_value();
                            }));
  return busiest(std::move(by_name));
}

// "2024-11-15 16:57:50" in seconds of any epoch; negative if it is not so.
double seconds_of(std::string_view text) {
  std::tm time{};
  if (strptime(std::string(text).c_str(), "%Y-%m-%d %H:%M:%S", &time) == nullptr) return -1;
  return static_cast<double>(timegm(&time));
}

// All models take longer than any function of the catalogue, so they take its times by rank.
Result<std::vector<Recorded>> read_alibaba(const std::string& folder, const Catalogue& catalogue) {
  std::map<std::string, Recorded> by_name;
  std::map<std::string, std::vector<double>> durations_s;
  double first_s = 1e300;
  RETURN_IF_ERROR(read_rows(
      folder + "/alibaba_genai_v2026/lora_request_trace.csv.gz",
      {"gmt_create", "predict_status", "exec_time_seconds", "checkpoint_model_version_id"},
      [&](const auto& chosen, const auto&, const auto&) {
        const double at_s = seconds_of(chosen[0]);
        const auto took_s = workload::number_of(chosen[2]);
        if (at_s < 0) return false;
        if (chosen[1] != "SUCCEED" || !took_s) return true;
        const std::string name(chosen[3]);
        by_name[name].name = name;
        // A minute of the trace is a second.
        by_name[name].instants_s.push_back(at_s / 60);
        durations_s[name].push_back(*took_s);
        first_s = std::min(first_s, at_s / 60);
        return true;
      }));
  std::vector<Recorded> all = busiest(std::move(by_name));
  const auto median = [&](const Recorded& one) {
    std::vector<double>& values = durations_s[one.name];
    std::ranges::sort(values);
    return values[values.size() / 2];
  };
  std::vector<size_t> ranks(all.size());
  for (size_t i = 0; i < ranks.size(); ++i) ranks[i] = i;
  std::ranges::stable_sort(ranks,
                           [&](size_t a, size_t b) { return median(all[a]) < median(all[b]); });
  std::vector<double> warm_s;
  for (const CatalogueEntry& entry : catalogue) warm_s.push_back(entry.gpu_warm_s);
  std::ranges::sort(warm_s);
  for (size_t rank = 0; rank < ranks.size(); ++rank) {
    all[ranks[rank]].warm_s = warm_s[rank * warm_s.size() / ranks.size()];
  }
  for (Recorded& one : all) {
    for (double& at_s : one.instants_s) at_s -= first_s;
  }
  return all;
}

// Eight functions follow each of the three patterns, each from a place of its own on, and have
// entries drawn from the catalogue.
Result<std::vector<Recorded>> read_streambox(const std::string& folder, Random& random) {
  std::vector<Recorded> all;
  for (const char* pattern : {"bursty", "periodic", "sporadic"}) {
    const std::string path = folder + "/streambox/" + pattern + "-load.txt";
    ASSIGN_OR_RETURN(const auto lines, workload::open_lines(path));
    std::vector<double> series;
    double sum = 0;
    for (;;) {
      ASSIGN_OR_RETURN(const auto line, lines->next());
      if (!line) break;
      const auto count = workload::number_of(*line);
      if (!count) return Error{ErrorCode::kInvalidArgument, path + " has a line that is no number"};
      series.push_back(*count);
      sum += *count;
    }
    if (sum <= 0) return Error{ErrorCode::kInvalidArgument, path + " has no requests"};
    for (size_t i = 0; i < kFunctions / 3; ++i) {
      Recorded one{.name = pattern + std::to_string(i)};
      const size_t from = random.below(series.size());
      // The k-th of a pattern has 160/k: popularity differs within a pattern too.
      const double calls = 160.0 / static_cast<double>(1 + i);
      one.counts.resize(series.size());
      for (size_t at = 0; at < series.size(); ++at) {
        const double expected = calls * series[(from + at) % series.size()] / sum;
        const double whole = std::floor(expected);
        one.counts[at] =
            static_cast<uint64_t>(whole) + (random.uniform() < expected - whole ? 1 : 0);
      }
      all.push_back(std::move(one));
    }
  }
  return all;
}

// Functions that are called at most twice a minute, drawn from such until they ask for the load;
// at their own pace, calls spread uniformly in their minutes.
Workload real_time_from(const std::vector<Recorded>& all, const std::string& family, double load,
                        size_t most_functions, uint64_t seed, const Catalogue& catalogue) {
  SeededRandom random(seed * 7919 + 13);
  std::vector<Recorded> rare;
  for (const Recorded& one : all) {
    const double minutes = static_cast<double>(one.counts.size());
    if (one.calls() >= 4 && one.calls() <= 2 * minutes) rare.push_back(one);
  }
  shuffle(rare, random);
  rare.resize(std::min(rare.size(), most_functions));
  std::vector<CatalogueEntry> entries = entries_of(rare, catalogue, random);
  Workload workload{.name = family + "-" + std::to_string(seed) + "-" + bench::number(load),
                    .family = family};
  double asked_s = 0;
  for (size_t i = 0; i < rare.size(); ++i) {
    const double length_s = 60 * static_cast<double>(rare[i].counts.size());
    const double more_s = rare[i].calls() * entries[i].gpu_warm_s;
    if (asked_s + more_s > load * length_s) continue;
    asked_s += more_s;
    workload.length_s = length_s;
    const auto number = static_cast<uint32_t>(workload.entries.size());
    workload.functions.push_back({.name = rare[i].name});
    workload.entries.push_back(entries[i]);
    std::vector<Duration> instants;
    for (size_t minute = 0; minute < rare[i].counts.size(); ++minute) {
      instants.clear();
      workload::spread(workload::Spreading::kUniform, rare[i].counts[minute], seconds(60), random,
                       instants);
      for (const Duration at : instants) {
        workload.arrivals.push_back({seconds(60) * static_cast<int64_t>(minute) + at, number});
      }
    }
  }
  std::ranges::sort(workload.arrivals);
  return workload;
}

}  // namespace

Result<std::vector<Workload>> open_days(const std::string& folder, const Catalogue& catalogue,
                                        bool quick) {
  std::vector<Workload> all;
  const auto has = [&](const char* family) {
    return std::filesystem::exists(folder + "/" + family);
  };
  std::vector<Recorded> hours, day;
  if (has("azure2019_8h")) {
    ASSIGN_OR_RETURN(hours, read_azure2019_8h(folder));
  }
  if (has("azure2019_day")) {
    ASSIGN_OR_RETURN(day, read_counts(folder + "/azure2019_day/invocations.csv.gz", "fid"));
  }
  const std::vector<uint64_t> seeds =
      quick ? std::vector<uint64_t>{1} : std::vector<uint64_t>{1, 2, 3, 4};
  for (const uint64_t seed : seeds) {
    for (const auto& [load, functions] : {std::pair(0.2, size_t{24}), {0.4, size_t{60}}}) {
      if (!hours.empty()) {
        all.push_back(real_time_from(hours, "real-8h", load, functions, seed, catalogue));
        all.back().use = Use::kTraining;
      }
      if (!day.empty()) {
        all.push_back(real_time_from(day, "real-day", load, functions, seed, catalogue));
      }
    }
    // Of the generator, long enough for gaps to be learnt.
    for (const double load : {0.3, 0.6}) {
      const std::string name = "generator-2h-" + std::to_string(seed) + "-" + bench::number(load);
      all.push_back(generated(catalogue, name, load, 9500 + seed, 7200));
      all.back().family = "generator-2h";
    }
  }
  return all;
}

Result<std::vector<Workload>> open_families(const std::string& folder, const Catalogue& catalogue,
                                            bool quick) {
  std::vector<Workload> all;
  const auto has = [&](const char* family) {
    return std::filesystem::exists(folder + "/" + family);
  };
  std::vector<Recorded> hours, day;
  if (has("azure2019_8h")) {
    ASSIGN_OR_RETURN(hours, read_azure2019_8h(folder));
  }
  if (has("azure2019_day")) {
    ASSIGN_OR_RETURN(day, read_azure2019_day(folder));
  }
  const std::vector<uint64_t> seeds =
      quick ? std::vector<uint64_t>{1} : std::vector<uint64_t>{1, 2, 3};
  for (const uint64_t seed : seeds) {
    for (const double load : {0.5, 0.8}) {
      for (const auto& [family, recorded] :
           {std::pair("azure2019_8h", &hours), std::pair("azure2019_day", &day)}) {
        if (!recorded->empty()) all.push_back(drawn_from(*recorded, family, load, seed, catalogue));
      }
    }
  }
  SeededRandom random(24);
  const auto add = [&](const char* family, std::vector<Recorded> functions) {
    compress_minutes(functions, random);
    const auto entries = entries_of(functions, catalogue, random);
    for (const double load : {0.5, 0.8}) {
      all.push_back(scaled_to_load(std::string(family) + "-" + bench::number(load), family,
                                   functions, entries, load));
    }
  };
  if (has("azure2021_sample")) {
    ASSIGN_OR_RETURN(auto functions, read_azure2021(folder));
    add("azure2021", std::move(functions));
  }
  if (has("iluvatar")) {
    ASSIGN_OR_RETURN(auto functions, read_iluvatar(folder));
    add("iluvatar", std::move(functions));
  }
  if (has("alibaba_genai_v2026")) {
    ASSIGN_OR_RETURN(auto functions, read_alibaba(folder, catalogue));
    add("alibaba_genai", std::move(functions));
  }
  if (has("streambox")) {
    ASSIGN_OR_RETURN(auto functions, read_streambox(folder, random));
    add("streambox", std::move(functions));
  }
  return all;
}

const std::vector<std::pair<std::string, std::string>>& mappings() {
  static const std::vector<std::pair<std::string, std::string>> kMappings = {
      {"mqfq24",
       "as the files say: the largest GPU-warm time not above the Azure function's 25th "
       "percentile"},
      {"azure2019_8h",
       "six functions drawn from each quarter by calls, a minute to a second, calls spread "
       "uniformly "
       "in it; entries as mqfq24; drawn again while one has over 45 % of the calls"},
      {"azure2019_day",
       "the same from the first ten hours of other functions; durations drawn independently, for "
       "the trace does not join them"},
      {"azure2021",
       "the 24 busiest functions at their exact times; entries by the 25th percentile"},
      {"iluvatar", "its 21 functions at their exact times; entries by its warm times"},
      {"alibaba_genai",
       "the 24 busiest base models, a minute to a second; all take longer than the catalogue's "
       "functions, so entries by the rank of their median times"},
      {"streambox",
       "eight functions for each of its three patterns, each from another place on, with 160/1 to "
       "160/8 calls; entries drawn"},
      {"generator", "our own: four classes of arrivals, popularity k^-1, entries drawn"},
  };
  return kMappings;
}

}  // namespace lambent::paper_mqfq
