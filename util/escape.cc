#include "util/escape.h"

#include <fmt/core.h>

#include <string_view>

namespace dlsm {

namespace {

// What follows the backslash where `byte` is escaped; 0 where it stands for itself.
constexpr char EscapeName(char byte) {
  switch (byte) {
    case '\t':
      return 't';
    case '\n':
      return 'n';
    case '\0':
      return '0';
    case '\\':
      return '\\';
    default:
      return 0;
  }
}

}  // namespace

void AppendEscaped(std::string* to, const Slice& bytes) {
  const char* plain = bytes.begin();
  for (const char* at = plain; at != bytes.end(); ++at) {
    const char name = EscapeName(*at);
    if (name == 0) continue;
    to->append(plain, at);
    to->push_back('\\');
    to->push_back(name);
    plain = at + 1;
  }
  to->append(plain, bytes.end());
}

Status Unescape(const Slice& escaped, std::string* bytes) {
  bytes->clear();
  std::string_view rest = escaped.ToStringView();
  while (true) {
    const size_t plain = rest.find('\\');
    bytes->append(rest.substr(0, plain));
    if (plain == std::string_view::npos) return Status::OK();
    rest.remove_prefix(plain + 1);
    if (rest.empty()) return Status::InvalidArgument("a lone backslash at the end; write \\\\");
    switch (rest.front()) {
      case 't':
        bytes->push_back('\t');
        break;
      case 'n':
        bytes->push_back('\n');
        break;
      case '0':
        bytes->push_back('\0');
        break;
      case '\\':
        bytes->push_back('\\');
        break;
      default:
        return Status::InvalidArgument(
            fmt::format("unknown escape \\ with byte 0x{:02x}; there are \\t \\n \\0 \\\\",
                        static_cast<unsigned>(static_cast<unsigned char>(rest.front()))));
    }
    rest.remove_prefix(1);
  }
}

}  // namespace dlsm
