// A client that knows the secret and means ill: whatever it sends, the memory node goes on, serves
// others, and has its memory back when the client has gone.
#include <gtest/gtest.h>

#include <chrono>
#include <limits>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "memory_node/memory_node_testing.h"
#include "table/merge_messages.h"
#include "util/random.h"
#include "util/rpc/rpc_client.h"

namespace dlsm {
namespace {

constexpr uint64_t kSeed = 20;

NodeServerOptions Options() {
  NodeServerOptions options = TestServer::SmallOptions();
  options.fabric = FabricKind::kTcp;
  options.node.grace = std::chrono::milliseconds(50);
  return options;
}

// Numbers that bounds checks get wrong, and sometimes any other.
uint64_t Number(Random& random, uint64_t plausible) {
  const uint64_t odd[] = {0,
                          1,
                          plausible,
                          plausible - 1,
                          plausible + 1,
                          uint64_t{64} << 20,
                          std::numeric_limits<uint32_t>::max(),
                          uint64_t{1} << 63,
                          std::numeric_limits<uint64_t>::max(),
                          std::numeric_limits<uint64_t>::max() - 63};
  return random.OneIn(4) ? random.Next() : odd[random.Uniform(std::size(odd))];
}

class HostileClient {
 public:
  HostileClient(RpcClient* rpc, Random* random) : rpc_(*rpc), random_(*random), client_(rpc) {
    // Something of its own, so that not everything fails at the first check.
    EXPECT_OK(client_.Open("hostile-" + std::to_string(random_.Uniform(1000000))));
    own_ = client_.Grant(1 << 16);
  }

  void Attack() {
    const auto method = static_cast<Method>(random_.Uniform(kMethodCount + 3));
    std::string request = RequestFor(method);
    if (random_.OneIn(3)) Mutate(&request);
    if (random_.OneIn(20)) request = random_.Bytes(random_.Uniform(5000));
    std::string reply;
    // An answer of any kind, or the end of the connection: but one of them, and soon.
    const Deadline deadline = TestDeadline();
    const Status status = rpc_.Call(method, request, &reply, deadline);
    EXPECT_FALSE(deadline.Passed()) << MethodName(method) << ": " << status.ToString();
  }

 private:
  RemoteSpan Span() {
    RemoteSpan span = own_;
    if (random_.OneIn(2)) span.offset = Number(random_, own_.offset);
    if (random_.OneIn(2)) span.bytes = Number(random_, own_.bytes);
    if (random_.OneIn(8)) span.node = NodeId{static_cast<uint32_t>(random_.Next())};
    if (random_.OneIn(8)) span.region = RegionId{static_cast<uint32_t>(random_.Next())};
    return span;
  }
  std::vector<RemoteSpan> Spans() {
    std::vector<RemoteSpan> spans(random_.OneIn(50) ? 20000 : random_.Uniform(5));
    for (RemoteSpan& span : spans) span = Span();
    return spans;
  }
  SessionId Session() {
    return random_.OneIn(4) ? SessionId{Number(random_, 7)} : client_.session();
  }

  // In order mostly: what is not is refused before it is looked at.
  std::vector<uint64_t> Numbers(uint64_t next) {
    std::vector<uint64_t> numbers;
    const size_t count =
        random_.OneIn(50) ? MergeAnswers::kNumbersMax : static_cast<size_t>(random_.Uniform(4));
    for (uint64_t number = 1 + random_.Uniform(8); numbers.size() < count && number < next;
         number += 1 + random_.Uniform(3)) {
      numbers.push_back(random_.OneIn(100) ? Number(random_, number) : number);
    }
    return numbers;
  }
  MergeAnswers Answers() {
    MergeAnswers answers;
    answers.next = random_.OneIn(3) ? Number(random_, 20) : random_.Uniform(60);
    answers.awaited = Numbers(answers.next);
    answers.lost = Numbers(answers.next);
    return answers;
  }

  std::string RequestFor(Method method) {
    switch (method) {
      case Method::kOpenDatabase: {
        OpenDatabaseRequest request;
        request.name = random_.Bytes(random_.Uniform(40));
        request.create_if_missing = random_.OneIn(8);
        request.take_over = random_.OneIn(2);
        request.claimed = random_.OneIn(3) ? Session() : SessionId{};
        return request.Encode();
      }
      case Method::kHeartbeat: {
        HeartbeatRequest request;
        request.session = Session();
        request.publications_from = Number(random_, 1);
        request.answers = Answers();
        return request.Encode();
      }
      case Method::kGrant: {
        GrantRequest request;
        request.session = Session();
        request.bytes = Number(random_, 4096);
        request.bytes_min = Number(random_, 4096);
        return request.Encode();
      }
      case Method::kFree: {
        FreeRequest request;
        request.session = Session();
        request.unnamed_from = Number(random_, 1);
        request.spans = Spans();
        return request.Encode();
      }
      case Method::kPersist: {
        PersistRequest request;
        request.session = Session();
        request.spans = Spans();
        return request.Encode();
      }
      case Method::kPutManifest: {
        PutManifestRequest request;
        request.session = Session();
        request.version = Number(random_, 1);
        request.manifest = random_.Bytes(random_.Uniform(1000));
        request.live = Spans();
        return request.Encode();
      }
      case Method::kMerge: {
        MergeRequest request;
        request.session = Session();
        request.number.own = random_.OneIn(3) ? Number(random_, 20) : random_.Uniform(60);
        request.number.answers = Answers();
        for (uint64_t run = random_.Uniform(4); run > 0; --run) {
          TableMeta meta;
          meta.image = Span();
          request.runs.push_back({meta});
        }
        return request.Encode();
      }
      case Method::kOpenReader: {
        OpenReaderRequest request;
        request.databases.assign(random_.Uniform(50), random_.Bytes(random_.Uniform(30)));
        return request.Encode();
      }
      case Method::kReaderHeartbeat: {
        ReaderHeartbeatRequest request;
        request.reader = ReaderId{Number(random_, 1)};
        request.oldest = Number(random_, 1);
        return request.Encode();
      }
      case Method::kSetQuota: {
        SetQuotaRequest request;
        request.name = random_.Bytes(random_.Uniform(30));
        request.bytes = Number(random_, 1 << 20);
        return request.Encode();
      }
      default:
        return random_.Bytes(random_.Uniform(200));
    }
  }

  void Mutate(std::string* bytes) {
    for (uint64_t changes = 1 + random_.Uniform(4); changes > 0 && !bytes->empty(); --changes) {
      const size_t at = random_.Uniform(bytes->size());
      switch (random_.Uniform(4)) {
        case 0:
          (*bytes)[at] = static_cast<char>(random_.Next());
          break;
        case 1:
          (*bytes)[at] = '\xff';
          break;
        case 2:
          bytes->resize(at);
          break;
        default:
          bytes->insert(at, bytes->substr(0, random_.Uniform(20)));
      }
    }
  }

  RpcClient& rpc_;
  Random& random_;
  TestClient client_;
  RemoteSpan own_;
};

// Fails if any request of any method crashes the memory node, hangs it, takes memory for good, or
// breaks what it keeps of others.
TEST(HostileClientTest, AnyRequestIsSurvived) {
  SCOPED_TRACE(testing::Message() << "seed " << kSeed);
  Random random(kSeed);
  TestServer server(Options());
  NodeInfo info;
  std::unique_ptr<NodeRpcClient> honest_rpc;
  ASSERT_OK(
      NodeRpcClient::Connect(server.address(), "", "honest", TestDeadline(), &info, &honest_rpc));
  TestClient honest(honest_rpc.get());
  ASSERT_OK(honest.Open("honest"));
  const RemoteSpan kept = honest.Grant(4096);
  ASSERT_OK(honest.PutManifest(1, "what is", {kept}));
  const uint64_t before = server.used_bytes();
  // The hostile client's sessions end with its connections. What its manifests named stays, as for
  // anybody: it is destroyed here.
  const auto left = [&] {
    const Deadline deadline = TestDeadline();
    while (server.used_bytes() != before && !deadline.Passed()) {
      for (const auto& each : honest.List().databases) {
        if (each.name != "honest") honest.Destroy(each.name).PermitUncheckedError();
      }
      std::this_thread::sleep_for(std::chrono::milliseconds(20));
    }
    return server.used_bytes();
  };
  for (int round = 0; round < 6; ++round) {
    {
      std::unique_ptr<NodeRpcClient> rpc;
      ASSERT_OK(
          NodeRpcClient::Connect(server.address(), "", "hostile", TestDeadline(), &info, &rpc));
      HostileClient hostile(rpc.get(), &random);
      for (int i = 0; i < 400; ++i) hostile.Attack();
    }
    ASSERT_OK(honest.Heartbeat());
    ASSERT_OK(server.node().databases().CheckInvariants());
    ASSERT_EQ(left(), before);
  }
  ASSERT_OK(server.node().databases().CheckInvariants());
  ASSERT_OK(honest.Heartbeat());
  ASSERT_OK(honest.Close());
  // A token ends with the last session that it was for.
  ASSERT_OK(
      NodeRpcClient::Connect(server.address(), "", "honest", TestDeadline(), &info, &honest_rpc));
  TestClient again(honest_rpc.get());
  ASSERT_OK(again.Open("honest", /*create_if_missing=*/false));
  EXPECT_EQ(again.opened().manifest, "what is");
}

}  // namespace
}  // namespace dlsm
