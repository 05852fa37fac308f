#include "util/rpc/auth/frame_seal.h"

#include <openssl/core_names.h>
#include <openssl/crypto.h>
#include <openssl/evp.h>
#include <openssl/params.h>

#include <cstring>

#include "util/coding.h"
#include "util/openssl_setup.h"
#include "util/secret_proof.h"
#include "util/status_macros.h"

namespace dlsm {
namespace {

struct MacDeleter {
  void operator()(EVP_MAC* mac) const { EVP_MAC_free(mac); }
};

const unsigned char* Bytes(const Slice& slice) {
  return reinterpret_cast<const unsigned char*>(slice.data());
}

}  // namespace

void FrameSeal::ContextDeleter::operator()(EVP_MAC_CTX* context) const {
  EVP_MAC_CTX_free(context);
}

Status FrameSeal::Make(const std::string& key, std::unique_ptr<FrameSeal>* seal) {
  SetUpOpenSsl();
  const std::unique_ptr<EVP_MAC, MacDeleter> mac(EVP_MAC_fetch(nullptr, "HMAC", nullptr));
  std::unique_ptr<FrameSeal> made(new FrameSeal());
  if (mac != nullptr) made->context_.reset(EVP_MAC_CTX_new(mac.get()));
  char digest[] = "SHA256";
  const OSSL_PARAM parameters[] = {
      OSSL_PARAM_construct_utf8_string(OSSL_MAC_PARAM_DIGEST, digest, 0),
      OSSL_PARAM_construct_end()};
  if (made->context_ == nullptr ||
      EVP_MAC_init(made->context_.get(), Bytes(key), key.size(), parameters) != 1) {
    return Status::IOError("HMAC-SHA-256 cannot be set up; is OpenSSL installed completely?");
  }
  *seal = std::move(made);
  return Status::OK();
}

Status FrameSeal::Compute(const Slice& header, const Slice& payload, unsigned char* seal) {
  unsigned char number[sizeof(next_)];
  EncodeFixed64(reinterpret_cast<char*>(number), next_++);
  unsigned char whole[kProofBytes];
  size_t bytes = 0;
  EVP_MAC_CTX* const context = context_.get();
  // No key means: the one that it has.
  if (EVP_MAC_init(context, nullptr, 0, nullptr) != 1 ||
      EVP_MAC_update(context, number, sizeof(number)) != 1 ||
      EVP_MAC_update(context, Bytes(header), header.size()) != 1 ||
      EVP_MAC_update(context, Bytes(payload), payload.size()) != 1 ||
      EVP_MAC_final(context, whole, &bytes, sizeof(whole)) != 1 || bytes != sizeof(whole)) {
    return Status::IOError("HMAC-SHA-256 failed");
  }
  static_assert(kBytes <= sizeof(whole));
  std::memcpy(seal, whole, kBytes);
  return Status::OK();
}

Status FrameSeal::Append(std::string* frame) {
  unsigned char seal[kBytes] = {};
  DLSM_RETURN_IF_ERROR(Compute(*frame, Slice(), seal));
  frame->append(reinterpret_cast<const char*>(seal), sizeof(seal));
  return Status::OK();
}

Status FrameSeal::Check(const Slice& header, const Slice& payload, const Slice& seal) {
  unsigned char expected[kBytes] = {};
  DLSM_RETURN_IF_ERROR(Compute(header, payload, expected));
  if (ProofsEqual(seal, Slice(reinterpret_cast<const char*>(expected), kBytes))) {
    return Status::OK();
  }
  return Status::Corruption(
      "a frame has a wrong seal: somebody between the two sides has changed, inserted or dropped "
      "one; check the network, or use TLS");
}

Status FrameSeals::MakeForClient(const FrameKeys& keys) {
  DLSM_RETURN_IF_ERROR(FrameSeal::Make(keys.client, &sent));
  return FrameSeal::Make(keys.memory_node, &received);
}

Status FrameSeals::MakeForMemoryNode(const FrameKeys& keys) {
  DLSM_RETURN_IF_ERROR(FrameSeal::Make(keys.memory_node, &sent));
  return FrameSeal::Make(keys.client, &received);
}

}  // namespace dlsm
