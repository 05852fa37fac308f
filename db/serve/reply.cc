#include "db/serve/reply.h"

#include <fmt/format.h>

#include <cmath>
#include <iterator>

namespace dlsm::serve {

std::string DoubleText(double number) {
  if (std::isnan(number)) return "nan";
  if (std::isinf(number)) return number > 0 ? "inf" : "-inf";
  constexpr double kExact = 9007199254740992;  // 2^53: below, whole numbers are exact.
  if (number == std::floor(number) && std::fabs(number) < kExact) {
    return number == 0 && std::signbit(number) ? "-0" : fmt::format("{:.0f}", number);
  }
  // The shortest of those with 17 digits or less, in the form of printf's %g.
  for (int digits = 1; digits < 17; ++digits) {
    std::string text = fmt::format("{:.{}g}", number, digits);
    if (std::strtod(text.c_str(), nullptr) == number) return text;
  }
  return fmt::format("{:.17g}", number);
}

void Reply::Head(char type, size_t count) {
  fmt::format_to(std::back_inserter(*to_), "{}{}\r\n", type, count);
}

void Reply::Simple(std::string_view text) {
  *to_ += '+';
  *to_ += text;
  *to_ += "\r\n";
}

void Reply::Error(std::string_view text) {
  *to_ += '-';
  const size_t begin = to_->size();
  *to_ += text;
  for (size_t i = begin; i < to_->size(); ++i) {
    if ((*to_)[i] == '\r' || (*to_)[i] == '\n') (*to_)[i] = ' ';
  }
  *to_ += "\r\n";
}

void Reply::Integer(int64_t number) {
  const fmt::format_int text(number);
  *to_ += ':';
  to_->append(text.data(), text.size());
  *to_ += "\r\n";
}

void Reply::Bulk(const Slice& bytes) {
  const fmt::format_int text(bytes.size());
  *to_ += '$';
  to_->append(text.data(), text.size());
  *to_ += "\r\n";
  to_->append(bytes.data(), bytes.size());
  *to_ += "\r\n";
}

void Reply::Null() { *to_ += protocol_ == 3 ? "_\r\n" : "$-1\r\n"; }

void Reply::NullArray() { *to_ += protocol_ == 3 ? "_\r\n" : "*-1\r\n"; }

void Reply::Double(double number) {
  const std::string text = DoubleText(number);
  if (protocol_ == 3) {
    *to_ += ',' + text + "\r\n";
  } else {
    Bulk(text);
  }
}

void Reply::Boolean(bool value) {
  if (protocol_ == 3) {
    *to_ += value ? "#t\r\n" : "#f\r\n";
  } else {
    Integer(value ? 1 : 0);
  }
}

void Reply::Verbatim(const Slice& text) {
  if (protocol_ != 3) return Bulk(text);
  fmt::format_to(std::back_inserter(*to_), "={}\r\ntxt:", text.size() + 4);
  to_->append(text.data(), text.size());
  *to_ += "\r\n";
}

}  // namespace dlsm::serve
