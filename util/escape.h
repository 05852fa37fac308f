// Arbitrary bytes as one field of a line of text. Within it \t is a tab, \n a newline, \0 a zero
// byte and \\ a backslash; every other byte stands for itself.
#pragma once

#include <string>

#include "dLSM/slice.h"
#include "dLSM/status.h"

namespace dlsm {

// Appends `bytes` as a field.
void AppendEscaped(std::string* to, const Slice& bytes);
// Replaces *bytes by what the field `escaped` stands for. InvalidArgument names a wrong escape.
Status Unescape(const Slice& escaped, std::string* bytes);

}  // namespace dlsm
