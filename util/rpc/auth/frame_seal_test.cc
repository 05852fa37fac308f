#include "util/rpc/auth/frame_seal.h"

#include <gtest/gtest.h>

#include <cstring>
#include <string>

#include "util/rpc/auth/frame.h"
#include "util/status_testing.h"

namespace dlsm {
namespace {

const FrameKeys kKeys{std::string(32, 'c'), std::string(32, 'n')};

// Both ends of a connection whose keys are always the same.
class Ends {
 public:
  Ends() {
    EXPECT_OK(client_.MakeForClient(kKeys));
    EXPECT_OK(node_.MakeForMemoryNode(kKeys));
  }

  std::string Sealed(FrameSeal& seal, const std::string& payload) {
    std::string frame;
    EXPECT_OK(
        MakeFrame(FrameType::kRequest, Method::kGrant, Status::Code::kOk, 3, payload, &frame));
    EXPECT_OK(seal.Append(&frame));
    return frame;
  }
  // What comes out of `bytes` at the memory node.
  Status Receive(const std::string& bytes, std::string* payload) {
    FrameAssembler assembler(node_.received.get());
    std::string rest = bytes;
    while (!assembler.complete()) {
      size_t space = 0;
      char* const to = assembler.Space(&space);
      const size_t taken = std::min(space, rest.size());
      if (taken == 0) return Status::IOError("cut short");
      std::memcpy(to, rest.data(), taken);
      rest.erase(0, taken);
      const Status status = assembler.Filled(taken);
      if (!status.ok()) return status;
    }
    *payload = assembler.TakePayload();
    return Status::OK();
  }

  FrameSeals client_;
  FrameSeals node_;
};

class FrameSealTest : public testing::Test, public Ends {};

TEST_F(FrameSealTest, SealedFramesPassInTheirOrder) {
  std::string payload;
  for (const std::string sent : {"first", "", "third"}) {
    ASSERT_OK(Receive(Sealed(*client_.sent, sent), &payload));
    EXPECT_EQ(payload, sent);
  }
}

// Fails if somebody between the two sides can repeat, drop, reorder or reflect a frame, or make one
// for another connection.
TEST_F(FrameSealTest, OthersAreNoticed) {
  std::string payload;
  const std::string first = Sealed(*client_.sent, "first");
  const std::string second = Sealed(*client_.sent, "second");
  EXPECT_TRUE(Ends().Receive(second, &payload).IsCorruption()) << "first was dropped";
  ASSERT_OK(Receive(first, &payload));
  EXPECT_TRUE(Receive(first, &payload).IsCorruption()) << "repeated";
  Ends reflecting;
  EXPECT_TRUE(
      reflecting.Receive(reflecting.Sealed(*node_.sent, "its own"), &payload).IsCorruption());
  FrameSeals others;
  ASSERT_OK(others.MakeForClient({std::string(32, 'x'), std::string(32, 'y')}));
  EXPECT_TRUE(Ends().Receive(Sealed(*others.sent, "forged"), &payload).IsCorruption());
}

// Fails if a bit can be changed anywhere, with all checksums made right again.
TEST_F(FrameSealTest, ChangesAreNoticed) {
  const std::string sealed = Sealed(*client_.sent, "pay alice");
  std::string forged;
  ASSERT_OK(
      MakeFrame(FrameType::kRequest, Method::kGrant, Status::Code::kOk, 3, "pay mallo", &forged));
  forged += sealed.substr(sealed.size() - FrameSeal::kBytes);
  std::string payload;
  EXPECT_TRUE(Ends().Receive(forged, &payload).IsCorruption());
  for (size_t at = sealed.size() - FrameSeal::kBytes; at < sealed.size(); ++at) {
    std::string changed = sealed;
    changed[at] = static_cast<char>(changed[at] ^ 1);
    EXPECT_TRUE(Ends().Receive(changed, &payload).IsCorruption()) << at;
  }
}

}  // namespace
}  // namespace dlsm
