// Drawing with SVG text: axes, lines and bars for the report. Pure and deterministic: the same
// numbers give the same bytes. Used by report.
#pragma once

#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace lambent::workload {

// `text` with what HTML and XML would take for markup escaped.
std::string markup_escape(std::string_view text);
// A number with so many digits after the point.
std::string fixed(double number, int digits);
// "250 ms", "1.5 s", "20 min".
std::string seconds_label(double seconds);

// Maps numbers to pixels along one direction, linearly or by their logarithm.
class Scale {
 public:
  Scale(double least, double most, double from_pixel, double to_pixel, bool logarithmic);
  double pixel(double value) const;
  // Round numbers within the range to mark.
  std::vector<double> ticks() const;
  bool logarithmic() const { return logarithmic_; }
  double least() const { return least_; }

 private:
  double least_;
  double most_;
  double from_;
  double to_;
  bool logarithmic_;
};

// One <svg> of that size in its own units; text is set in the page's font and colours.
class Drawing {
 public:
  // `label` is what a reader who cannot see the picture hears.
  Drawing(double width, double height, std::string_view label);
  void line(double x1, double y1, double x2, double y2, std::string_view css_class);
  void rectangle(double x, double y, double width, double height, std::string_view css_class,
                 std::string_view tooltip);
  // `anchor` is start, middle or end.
  void text(double x, double y, std::string_view text, std::string_view anchor,
            std::string_view css_class);
  void polyline(const std::vector<std::pair<double, double>>& points, std::string_view css_class,
                std::string_view tooltip);
  std::string finish() &&;

 private:
  std::string svg_;
};

}  // namespace lambent::workload
