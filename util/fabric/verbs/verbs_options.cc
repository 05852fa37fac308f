#include "util/fabric/verbs/verbs_options.h"

#include <fmt/core.h>

#include <algorithm>
#include <charconv>
#include <limits>

#include "util/status_macros.h"

namespace dlsm {
namespace {

// One name, its bounds, and where its value goes.
struct Setting {
  std::string_view name;
  int64_t min;
  int64_t max;
  void (*set)(VerbsOptions&, int64_t);
};

constexpr int64_t kBytesMax = std::numeric_limits<int64_t>::max();

// The widths of most are those of the fields that the devices know.
constexpr Setting kSettings[] = {
    {"cm_port", 0, 65535, [](VerbsOptions& o, int64_t v) { o.cm_port = static_cast<int>(v); }},
    {"gid_index", -1, 255, [](VerbsOptions& o, int64_t v) { o.gid_index = static_cast<int>(v); }},
    {"mtu", 256, 4096, [](VerbsOptions& o, int64_t v) { o.mtu_bytes = static_cast<int>(v); }},
    {"sl", 0, 15, [](VerbsOptions& o, int64_t v) { o.service_level = static_cast<int>(v); }},
    {"traffic_class", 0, 255,
     [](VerbsOptions& o, int64_t v) { o.traffic_class = static_cast<int>(v); }},
    // 0 would wait for ever.
    {"ack_timeout", 1, 31, [](VerbsOptions& o, int64_t v) { o.ack_timeout = static_cast<int>(v); }},
    {"retries", 0, 7, [](VerbsOptions& o, int64_t v) { o.retries = static_cast<int>(v); }},
    {"rnr_retries", 0, 7, [](VerbsOptions& o, int64_t v) { o.rnr_retries = static_cast<int>(v); }},
    {"rnr_timer", 0, 31, [](VerbsOptions& o, int64_t v) { o.rnr_timer = static_cast<int>(v); }},
    {"depth", 2, 1 << 15,
     [](VerbsOptions& o, int64_t v) { o.send_queue_depth = static_cast<uint32_t>(v); }},
    {"reads_at_once", 1, 255,
     [](VerbsOptions& o, int64_t v) { o.reads_at_once = static_cast<uint32_t>(v); }},
    {"inline", 0, 4096,
     [](VerbsOptions& o, int64_t v) { o.inline_bytes = static_cast<uint32_t>(v); }},
    {"queue_pairs", 0, 1 << 20,
     [](VerbsOptions& o, int64_t v) { o.queue_pairs_max = static_cast<uint32_t>(v); }},
    {"spin_us", 0, 1'000'000,
     [](VerbsOptions& o, int64_t v) { o.spin_us = static_cast<uint32_t>(v); }},
    {"message_max", 4096, kBytesMax,
     [](VerbsOptions& o, int64_t v) { o.message_bytes_max = static_cast<uint64_t>(v); }},
    {"registration_max", 4096, kBytesMax,
     [](VerbsOptions& o, int64_t v) { o.registration_bytes_max = static_cast<uint64_t>(v); }},
};

Status SetConnection(std::string_view value, VerbsOptions* options) {
  if (value == "auto") {
    options->connect = VerbsConnect::kAuto;
  } else if (value == "hello") {
    options->connect = VerbsConnect::kHello;
  } else if (value == "cm") {
    options->connect = VerbsConnect::kCm;
  } else {
    return Status::InvalidArgument(fmt::format(
        "\"{}\" is no value for connection of the RDMA device; use hello, cm or auto", value));
  }
  return Status::OK();
}

Status SetOne(std::string_view name, std::string_view value, VerbsOptions* options) {
  if (name == "connection") return SetConnection(value, options);
  for (const Setting& setting : kSettings) {
    if (setting.name != name) continue;
    int64_t number = 0;
    const char* const end = value.data() + value.size();
    const auto parsed = std::from_chars(value.data(), end, number);
    if (parsed.ec != std::errc() || parsed.ptr != end || number < setting.min ||
        number > setting.max) {
      return Status::InvalidArgument(
          fmt::format("\"{}\" is no value for {} of the RDMA device; use {} to {}", value, name,
                      setting.min, setting.max));
    }
    setting.set(*options, number);
    return Status::OK();
  }
  std::string known = " connection";
  for (const Setting& setting : kSettings) known += fmt::format(" {}", setting.name);
  return Status::InvalidArgument(
      fmt::format("an RDMA device has no setting \"{}\"; there are:{}", name, known));
}

bool IsPowerOfTwo(int value) { return (value & (value - 1)) == 0; }

}  // namespace

Status ParseVerbsOptions(std::string_view text, VerbsOptions* options) {
  VerbsOptions parsed = *options;
  for (bool first = true; first || !text.empty(); first = false) {
    const size_t comma = std::min(text.find(','), text.size());
    const std::string_view part = text.substr(0, comma);
    text.remove_prefix(std::min(comma + 1, text.size()));
    const size_t equals = part.find('=');
    if (equals != std::string_view::npos) {
      DLSM_RETURN_IF_ERROR(SetOne(part.substr(0, equals), part.substr(equals + 1), &parsed));
    } else if (first) {
      parsed.device = std::string(part);
    } else {
      return Status::InvalidArgument(
          fmt::format("\"{}\" is no setting of the RDMA device; write NAME=VALUE", part));
    }
  }
  if (!IsPowerOfTwo(parsed.mtu_bytes)) {
    return Status::InvalidArgument(fmt::format(
        "an RDMA packet's MTU is 256, 512, 1024, 2048 or 4096, not {}", parsed.mtu_bytes));
  }
  if (parsed.connect == VerbsConnect::kCm && parsed.gid_index >= 0) {
    return Status::InvalidArgument(
        "with connection=cm the connection manager chooses the GID: leave out gid_index");
  }
  *options = std::move(parsed);
  return Status::OK();
}

}  // namespace dlsm
