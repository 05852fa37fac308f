#include "util/cluster_config.h"

#include <fmt/core.h>

#include <algorithm>
#include <charconv>
#include <limits>
#include <string_view>
#include <utility>

#include "util/small_file.h"
#include "util/status_macros.h"

namespace dlsm {
namespace {

constexpr size_t kFileBytesMax = size_t{1} << 20;
constexpr std::string_view kWhiteSpace = " \t\r\v\f";

// Untrusted bytes, made fit for a message: printable and short.
std::string Quote(std::string_view text) {
  constexpr size_t kShownMax = 64;
  std::string quoted = "\"";
  for (const char byte : text.substr(0, kShownMax)) {
    quoted.push_back(byte >= ' ' && byte <= '~' ? byte : '?');
  }
  return quoted + (text.size() > kShownMax ? "...\"" : "\"");
}

// Takes what is before the next separator off *text, separators before it too; empty at the end.
std::string_view NextField(std::string_view* text, std::string_view separators) {
  text->remove_prefix(std::min(text->find_first_not_of(separators), text->size()));
  const std::string_view field = text->substr(0, text->find_first_of(separators));
  text->remove_prefix(field.size());
  return field;
}

Status Malformed(std::string_view text, std::string_view cause) {
  return Status::InvalidArgument(fmt::format(
      "{} is not a node: {}; write host or host:port, IPv6 as [address]:port", Quote(text), cause));
}

bool IsHostCharacter(char c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '.' ||
         c == '-' || c == '_';
}
bool IsIpv6Character(char c) {
  return IsHostCharacter(c) || c == ':' || c == '%';  // '%' starts the scope.
}

bool ParsePort(std::string_view text, uint16_t* port) {
  const char* const end = text.data() + text.size();
  const auto [rest, error] = std::from_chars(text.data(), end, *port);
  return error == std::errc() && rest == end && *port != 0;
}

// Splits "[host]rest" or "host:rest"; *rest starts with the colon, or is empty.
Status SplitHost(std::string_view text, std::string_view* host, std::string_view* rest) {
  const bool bracketed = text.starts_with('[');
  const size_t end = bracketed ? text.find(']') : std::min(text.find(':'), text.size());
  if (end == std::string_view::npos) return Malformed(text, "the bracket is not closed");
  *host = bracketed ? text.substr(1, end - 1) : text.substr(0, end);
  *rest = text.substr(bracketed ? end + 1 : end);
  if (bracketed && host->find(':') == std::string_view::npos) {
    return Malformed(text, "what is in the brackets is no IPv6 address");
  }
  if (host->empty()) return Malformed(text, "the host is missing");
  if (!std::all_of(host->begin(), host->end(), bracketed ? IsIpv6Character : IsHostCharacter)) {
    return Malformed(text, "the host has a character that no host has");
  }
  return Status::OK();
}

Status AddNode(std::string_view text, std::vector<HostPort>* nodes) {
  HostPort node;
  DLSM_RETURN_IF_ERROR(ParseHostPort(text, &node));
  if (std::find(nodes->begin(), nodes->end(), node) != nodes->end()) {
    return Status::InvalidArgument(fmt::format("{} is there twice; remove one", node.ToString()));
  }
  nodes->push_back(std::move(node));
  return Status::OK();
}

Status AddNodes(std::string_view text, std::string_view separators, std::vector<HostPort>* nodes) {
  std::string_view field;
  while (field = NextField(&text, separators), !field.empty()) {
    DLSM_RETURN_IF_ERROR(AddNode(field, nodes));
  }
  return Status::OK();
}

Status AtLine(const std::string& name, size_t line, const Status& cause) {
  return Status::InvalidArgument(
      fmt::format("{}:{}: {}", name, line, cause.message().ToStringView()));
}

}  // namespace

std::string HostPort::ToString() const {
  const bool ipv6 = host.find(':') != std::string::npos;
  return ipv6 ? fmt::format("[{}]:{}", host, port) : fmt::format("{}:{}", host, port);
}

Status ParseHostPort(const Slice& text, HostPort* node) {
  const std::string_view whole = text.ToStringView();
  std::string_view host;
  std::string_view rest;
  DLSM_RETURN_IF_ERROR(SplitHost(whole, &host, &rest));
  uint16_t port = kDefaultPort;
  if (!rest.empty() && (rest[0] != ':' || !ParsePort(rest.substr(1), &port))) {
    return Malformed(whole, "the port is not a number from 1 to 65535");
  }
  *node = HostPort{std::string(host), port};
  return Status::OK();
}

Status ParseHostPorts(const Slice& text, std::vector<HostPort>* nodes) {
  std::vector<HostPort> parsed;
  DLSM_RETURN_IF_ERROR(AddNodes(text.ToStringView(), ", \t\r\n", &parsed));
  if (parsed.empty()) {
    return Status::InvalidArgument(
        "the list of memory nodes is empty; write host[:port], separated by commas");
  }
  *nodes = std::move(parsed);
  return Status::OK();
}

Status ParseClusterConfig(const std::string& name, const Slice& text, ClusterConfig* config) {
  ClusterConfig parsed;
  std::vector<HostPort>* const lists[] = {&parsed.compute_nodes, &parsed.memory_nodes};
  constexpr std::string_view kRemedy =
      "the first line names the compute nodes, the second one the memory nodes";
  size_t lists_seen = 0;
  std::string_view rest = text.ToStringView();
  for (size_t line_number = 1; !rest.empty(); ++line_number) {
    std::string_view line = rest.substr(0, rest.find('\n'));
    rest.remove_prefix(std::min(line.size() + 1, rest.size()));
    line = line.substr(0, line.find('#'));
    if (line.find_first_not_of(kWhiteSpace) == std::string_view::npos) continue;
    if (lists_seen == std::size(lists)) {
      return AtLine(name, line_number,
                    Status::InvalidArgument("this line is one too many", Slice(kRemedy)));
    }
    const Status status = AddNodes(line, kWhiteSpace, lists[lists_seen++]);
    if (!status.ok()) return AtLine(name, line_number, status);
  }
  if (lists_seen < std::size(lists)) {
    return Status::InvalidArgument(fmt::format("{} names no {} nodes: {}", name,
                                               lists_seen == 0 ? "compute and memory" : "memory",
                                               kRemedy));
  }
  *config = std::move(parsed);
  return Status::OK();
}

Status ReadClusterConfig(const std::string& path, ClusterConfig* config) {
  SmallFile file;
  DLSM_RETURN_IF_ERROR(ReadSmallFile("cluster configuration", path, kFileBytesMax, &file));
  return ParseClusterConfig(path, file.contents, config);
}

}  // namespace dlsm
