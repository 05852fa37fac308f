#include "db/serve/request_parser.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <string>
#include <vector>

namespace dlsm::serve {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;
using State = RequestParser::State;

// All requests in `bytes`, which come in pieces of `piece` bytes; the last one is {"!", error} if
// there is one.
std::vector<std::vector<std::string>> Parse(const std::string& bytes, size_t piece = SIZE_MAX,
                                            bool authenticated = true) {
  RequestParser parser;
  parser.set_authenticated(authenticated);
  std::vector<std::vector<std::string>> requests;
  size_t done = 0;
  for (size_t there = std::min(piece, bytes.size());;
       there = std::min(there + piece, bytes.size())) {
    while (true) {
      std::vector<Slice> arguments;
      size_t taken = 0;
      const std::string part = bytes.substr(done, there - done);  // Elsewhere each time.
      const State state = parser.Next(part, &arguments, &taken);
      if (state == State::kMore) break;
      if (state == State::kError) {
        requests.push_back({"!", parser.error()});
        return requests;
      }
      std::vector<std::string>& request = requests.emplace_back();
      for (const Slice& argument : arguments) request.push_back(argument.ToString());
      done += taken;
    }
    if (there == bytes.size()) return requests;
  }
}

// Fails if requests are not understood as they were sent, however they are cut in pieces.
TEST(RequestParserTest, TakesRequestsApart) {
  const std::string bytes =
      "*2\r\n$3\r\nGET\r\n$1\r\na\r\n*1\r\n$4\r\nPING\r\n*0\r\nset a 1\r\n"
      "*3\r\n$3\r\nSET\r\n$0\r\n\r\n$4\r\n\r\n\r\n\r\n\r\n*-1\r\nping\n";
  for (size_t piece = 1; piece <= bytes.size(); ++piece) {
    EXPECT_THAT(Parse(bytes, piece),
                ElementsAre(ElementsAre("GET", "a"), ElementsAre("PING"), IsEmpty(),
                            ElementsAre("set", "a", "1"), ElementsAre("SET", "", "\r\n\r\n"),
                            IsEmpty(), IsEmpty(), ElementsAre("ping")))
        << piece;
  }
}

// Fails if quotes and escapes of a line mean something else than to Redis.
TEST(RequestParserTest, LinesHaveQuotes) {
  EXPECT_THAT(Parse("  a  \"b c\" 'd e'\t\"\\x41\\n\\q\" '\\n\\''\r\n"),
              ElementsAre(ElementsAre("a", "b c", "d e", "A\nq", "\\n'")));
  EXPECT_THAT(Parse("a \"\" ''\n"), ElementsAre(ElementsAre("a", "", "")));
  for (const char* line : {"\"a\n", "'a\n", "\"a\"b\n", "'a'b\n", "\"a\\\"\n"}) {
    EXPECT_THAT(Parse(line),
                ElementsAre(ElementsAre("!", "ERR Protocol error: unbalanced quotes in request")))
        << line;
  }
}

// Fails if bytes that are no request are taken for one, or wait for more for ever.
TEST(RequestParserTest, WhatIsNoRequestIsAnError) {
  const auto error = [](const std::string& bytes, bool authenticated = true) {
    const auto requests = Parse(bytes, SIZE_MAX, authenticated);
    return requests.empty() || requests.back().size() != 2 ? "none" : requests.back()[1];
  };
  const std::string prefix = "ERR Protocol error: ";
  EXPECT_EQ(error("*x\r\n"), prefix + "invalid multibulk length");
  EXPECT_EQ(error("*\r\n"), prefix + "invalid multibulk length");
  EXPECT_EQ(error("*1048577\r\n"), prefix + "invalid multibulk length");
  EXPECT_EQ(error("*99999999999999999999\r\n"), prefix + "invalid multibulk length");
  EXPECT_EQ(error("*1\r\nPING\r\n"), prefix + "expected '$', got 'P'");
  EXPECT_EQ(error("*1\r\n$x\r\n"), prefix + "invalid bulk length");
  EXPECT_EQ(error("*1\r\n$-1\r\n"), prefix + "invalid bulk length");
  EXPECT_EQ(error("*1\r\n$536870913\r\n"), prefix + "invalid bulk length");
  EXPECT_EQ(error("*" + std::string(70'000, '1')), prefix + "too big mbulk count string");
  EXPECT_EQ(error("*1\r\n$" + std::string(70'000, '1')), prefix + "too big bulk count string");
  EXPECT_EQ(error(std::string(70'000, 'a')), prefix + "too big inline request");
  EXPECT_EQ(error("*11\r\n", false), prefix + "unauthenticated multibulk length");
  EXPECT_EQ(error("*1\r\n$16385\r\n", false), prefix + "unauthenticated bulk length");
  EXPECT_EQ(error("*11\r\n"), "none");
  EXPECT_EQ(error("*1\r\n$16385\r\n"), "none");
}

}  // namespace
}  // namespace dlsm::serve
