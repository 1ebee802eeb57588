#include "tools/import/onnx_memory.h"

#include <google/protobuf/io/coded_stream.h>
#include <google/protobuf/wire_format_lite.h>
#include <onnx/onnx_pb.h>

#include <unordered_map>

namespace terrace::import {
namespace {

using google::protobuf::Descriptor;
using google::protobuf::FieldDescriptor;
using google::protobuf::MessageFactory;
using google::protobuf::internal::WireFormatLite;
using google::protobuf::io::CodedInputStream;

constexpr std::uint64_t pointer_bytes = 8;
constexpr std::uint64_t text_bytes = pointer_bytes + sizeof(std::string);
constexpr std::uint64_t number_bytes = 8;
constexpr std::uint64_t unknown_bytes = 16 + text_bytes;  // an entry of UnknownFieldSet
constexpr int most_depth = 100;                           // protobuf's own limit

class Walker {
 public:
  explicit Walker(CodedInputStream* in) : in_(in) {}
  // False: not a message, or `left` is spent.
  bool message(const Descriptor* type, int depth);
  [[nodiscard]] bool spent() const { return spent_; }

 private:
  bool field(const FieldDescriptor* field, std::uint32_t tag, int depth);
  bool with_length(const FieldDescriptor* field, int depth);
  bool spend(std::uint64_t bytes);
  std::uint64_t size_of(const Descriptor* type);

  CodedInputStream* in_;
  std::uint64_t left_ = most_onnx_overhead_bytes;
  bool spent_ = false;
  std::unordered_map<const Descriptor*, std::uint64_t> sizes_;
};

bool Walker::spend(std::uint64_t bytes) {
  spent_ = spent_ || bytes > left_;
  if (!spent_) left_ -= bytes;
  return !spent_;
}

std::uint64_t Walker::size_of(const Descriptor* type) {
  std::uint64_t& bytes = sizes_[type];
  if (bytes == 0)
    bytes = pointer_bytes + MessageFactory::generated_factory()->GetPrototype(type)->SpaceUsedLong();
  return bytes;
}

bool Walker::message(const Descriptor* type, int depth) {
  if (depth > most_depth || !spend(size_of(type))) return false;
  while (const std::uint32_t tag = in_->ReadTag()) {
    const int number = WireFormatLite::GetTagFieldNumber(tag);
    if (number == 0 || !field(type->FindFieldByNumber(number), tag, depth)) return false;
  }
  return in_->ConsumedEntireMessage();
}

// `field` is null where the schema has none of that number. Groups are no part of ONNX.
bool Walker::field(const FieldDescriptor* field, std::uint32_t tag, int depth) {
  std::uint64_t number = 0;
  const std::uint64_t cost = field == nullptr ? unknown_bytes : number_bytes;
  switch (WireFormatLite::GetTagWireType(tag)) {
    case WireFormatLite::WIRETYPE_VARINT:
      return in_->ReadVarint64(&number) && spend(cost);
    case WireFormatLite::WIRETYPE_FIXED32:
      return in_->Skip(4) && spend(cost);
    case WireFormatLite::WIRETYPE_FIXED64:
      return in_->Skip(8) && spend(cost);
    case WireFormatLite::WIRETYPE_LENGTH_DELIMITED:
      return with_length(field, depth);
    default:
      return false;
  }
}

bool Walker::with_length(const FieldDescriptor* field, int depth) {
  int length = 0;
  if (!in_->ReadVarintSizeAsInt(&length) || length > in_->BytesUntilLimit()) return false;
  if (field == nullptr) return spend(unknown_bytes) && in_->Skip(length);
  if (field->type() == FieldDescriptor::TYPE_MESSAGE) {
    const CodedInputStream::Limit outer = in_->PushLimit(length);
    const bool whole = message(field->message_type(), depth + 1);
    in_->PopLimit(outer);
    return whole;
  }
  const bool text = field->cpp_type() == FieldDescriptor::CPPTYPE_STRING;
  const bool fixed =
      field->type() == FieldDescriptor::TYPE_FLOAT || field->type() == FieldDescriptor::TYPE_DOUBLE;
  const std::uint64_t packed = fixed ? 0 : number_bytes * static_cast<std::uint64_t>(length);
  return spend(text ? text_bytes : packed) && in_->Skip(length);
}

}  // namespace

OnnxWire check_onnx_wire(std::string_view bytes) {
  CodedInputStream in(reinterpret_cast<const std::uint8_t*>(bytes.data()), static_cast<int>(bytes.size()));
  Walker walker(&in);
  if (walker.message(onnx::ModelProto::descriptor(), 0)) return OnnxWire::fits;
  return walker.spent() ? OnnxWire::too_much : OnnxWire::not_onnx;
}

}  // namespace terrace::import
