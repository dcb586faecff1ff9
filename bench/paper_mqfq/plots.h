// The bench's pictures: lines, bars and heat maps, each a file that stands alone. Pure but for
// save_plot; the same numbers give the same bytes.
#pragma once

#include <string>
#include <utility>
#include <vector>

namespace lambent::paper_mqfq {

struct HeatMap {
  std::string title, across, down;
  std::vector<std::string> columns, rows;
  std::vector<std::vector<double>> values;  // by row; less is better
};
std::string heat_map(const HeatMap& map);

struct LineChart {
  std::string title, across, up;
  struct Line {
    std::string name;
    std::vector<std::pair<double, double>> points;
  };
  std::vector<Line> lines;
  bool logarithmic_across = false, logarithmic_up = false;
};
std::string line_chart(const LineChart& chart);

struct BarChart {
  std::string title, up;
  std::vector<std::string> groups;
  struct Series {
    std::string name;
    std::vector<double> values;  // by group
  };
  std::vector<Series> series;
};
// By the logarithm.
std::string bar_chart(const BarChart& chart);

// Writes FOLDER/NAME.svg, with "simulated" in it. Ends the program with a message if it cannot.
void save_plot(const std::string& folder, const std::string& name, const std::string& svg);

}  // namespace lambent::paper_mqfq
