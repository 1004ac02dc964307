// Loads and stores of a warp. The shape of the address determines the code: one access for all
// lanes, one vector for each row of adjacent lanes, or one access per lane. Memory of inactive
// lanes is never accessed.
#include <llvm/IR/Intrinsics.h>

#include <cstdlib>

#include "proxy/softgpu/emit/access.h"

namespace cuspan::softgpu::emit {
namespace {

using analysis::Shape;
using analysis::Spread;
using llvm::Value;
using ptx::Operand;
using ptx::Space;

using Values = llvm::SmallVector<Value*, 8>;

class WarpAccess {
 public:
  WarpAccess(FunctionEmitter& e, const Access& access, const Operand& address)
      : e_(e), b_(e.b), access_(access), address_(address) {
    element_ = e.WithWidth(1, [&] { return e.TypeOf(access.type); });
    if (address.kind != Operand::Kind::kAddress || address.elements.size() != 1) {
      // Address() reports the error.
      e.Address(address, access.space, access.bytes());
      return;
    }
    shape_ = e.ShapeOf(address.elements[0], access.space == Space::kShared ? 32 : 64);
  }

  const Shape& shape() const { return shape_; }
  bool contiguous() const {
    return shape_.spread != Spread::kLanes && !shape_.flat() && !access_.order.is_atomic() &&
           shape_.step() == static_cast<std::int64_t>(access_.bytes()) && e_.layout().row >= 8;
  }

  // Loads one value per row, for rows with one address.
  Values LoadRows() {
    const unsigned rows = e_.layout().rows();
    CheckRows(rows);
    // A row without active lanes reads the address of another row.
    llvm::SmallVector<Value*, 4> pointers, active;
    for (unsigned r = 0; r < rows; ++r) {
      pointers.push_back(RowAddress(r));
      active.push_back(RowIsActive(r));
    }
    Value* any = pointers[0];
    for (unsigned r = 1; r < rows; ++r) any = b_.CreateSelect(active[r], pointers[r], any);
    Values values(access_.length,
                  llvm::Constant::getNullValue(llvm::FixedVectorType::get(element_, rows)));
    for (unsigned r = 0; r < rows; ++r) {
      auto* const from = b_.CreateSelect(active[r], pointers[r], any);
      const auto loaded = e_.WithWidth(1, [&] { return LoadElements(e_, access_, from); });
      for (unsigned k = 0; k < access_.length; ++k)
        values[k] = b_.CreateInsertElement(values[k], loaded[k], r);
    }
    return values;
  }

  Values LoadLanes() {
    if (!contiguous()) return LoadEach();
    auto* const fast = NoWrap();
    if (fast == nullptr) return Frozen(LoadContiguous());
    auto* const easy = NewBlock();
    auto* const hard = NewBlock();
    auto* const done = NewBlock();
    b_.CreateCondBr(fast, easy, hard);
    b_.SetInsertPoint(easy);
    const Values contiguous = LoadContiguous();
    auto* const easy_end = b_.GetInsertBlock();
    b_.CreateBr(done);
    b_.SetInsertPoint(hard);
    const Values each = gathers_at_once() ? Gather() : LoadInLoop();
    auto* const hard_end = b_.GetInsertBlock();
    b_.CreateBr(done);
    b_.SetInsertPoint(done);
    Values values;
    for (unsigned k = 0; k < access_.length; ++k) {
      auto* const phi = b_.CreatePHI(contiguous[k]->getType(), 2);
      phi->addIncoming(contiguous[k], easy_end);
      phi->addIncoming(each[k], hard_end);
      values.push_back(phi);
    }
    return Frozen(values);
  }

  void StoreLanes(const Values& values) {
    if (!contiguous()) {
      StoreEach(values);
      return;
    }
    auto* const fast = NoWrap();
    if (fast == nullptr) {
      StoreContiguous(values);
      return;
    }
    auto* const easy = NewBlock();
    auto* const hard = NewBlock();
    auto* const done = NewBlock();
    b_.CreateCondBr(fast, easy, hard);
    b_.SetInsertPoint(easy);
    StoreContiguous(values);
    b_.CreateBr(done);
    b_.SetInsertPoint(hard);
    if (gathers_at_once())
      Scatter(values);
    else
      StoreInLoop(values);
    b_.CreateBr(done);
    b_.SetInsertPoint(done);
  }

 private:
  llvm::BasicBlock* NewBlock() {
    return llvm::BasicBlock::Create(e_.context(), "", b_.GetInsertBlock()->getParent());
  }
  llvm::FixedVectorType* Vector(unsigned count) {
    return llvm::FixedVectorType::get(element_, count);
  }

  Values Frozen(Values values) {
    if (!access_.may_be_frame()) return values;
    for (auto*& value : values) value = b_.CreateFreeze(value);
    return values;
  }

  // Pointer of the first lane of row `r`. The lane may be inactive, so its shared address may be
  // negative.
  Value* RowAddress(unsigned r) {
    e_.SetSignedOffsets(true);
    auto* const address = e_.WithWidth(
        1, [&] { return e_.UncheckedAddress(address_, access_.space, access_.bytes()); },
        b_.getInt32(r * e_.layout().row));
    e_.SetSignedOffsets(false);
    return address;
  }

  // True if any lane of row `r` is active.
  Value* RowIsActive(unsigned r) {
    const unsigned row = e_.layout().row;
    return b_.CreateIsNotNull(b_.CreateAnd(
        e_.mask(),
        b_.getInt32(static_cast<std::uint32_t>(((std::uint64_t{1} << row) - 1) << (r * row)))));
  }
  std::uint32_t alignment() const { return AlignmentOf(access_.bytes()); }
  bool aligned() { return e_.IsAligned(address_, access_.space, alignment()); }
  // Checks the alignment of the first address of each row. The others are equal, or follow in steps
  // of the access size.
  void CheckRows(unsigned rows) {
    if (aligned()) return;
    Value* any = b_.getFalse();
    for (unsigned r = 0; r < rows; ++r) {
      Value* const wrong = e_.IsMisaligned(RowAddress(r), alignment());
      any = b_.CreateOr(any, rows == 1 ? wrong : b_.CreateAnd(wrong, RowIsActive(r)));
    }
    e_.FaultIfMisaligned(any, alignment());
  }
  void CheckLanes(Value* addresses) {
    if (aligned()) return;
    e_.FaultIfMisaligned(
        b_.CreateOrReduce(b_.CreateAnd(e_.IsMisaligned(addresses, alignment()), e_.MaskVector())),
        alignment());
  }

  // True if no lane's index wraps around; null if wrapping is impossible.
  Value* NoWrap() {
    if (shape_.extension == Shape::Extension::kNone) return nullptr;
    const std::int64_t reach = shape_.narrow * (static_cast<std::int64_t>(e_.layout().row) - 1);
    if (std::abs(shape_.narrow) >= (std::int64_t{1} << 26)) return b_.getFalse();
    const unsigned count = shape_.spread == Spread::kRows ? e_.layout().rows() : 1;
    auto* const anchor = e_.WithWidth(count, [&] { return e_.Anchor(address_.elements[0]); });
    const bool is_signed = shape_.extension == Shape::Extension::kSign;
    const bool down = !is_signed && reach < 0;
    auto* const distance = llvm::ConstantInt::get(
        anchor->getType(), static_cast<std::uint64_t>(down ? -reach : reach), true);
    auto* const sum = b_.CreateBinaryIntrinsic(is_signed ? llvm::Intrinsic::sadd_with_overflow
                                               : down    ? llvm::Intrinsic::usub_with_overflow
                                                         : llvm::Intrinsic::uadd_with_overflow,
                                               anchor, distance);
    Value* overflow = b_.CreateExtractValue(sum, 1);
    if (count > 1) overflow = b_.CreateOrReduce(overflow);
    return b_.CreateNot(overflow);
  }

  unsigned pieces() const { return shape_.spread == Spread::kRows ? e_.layout().rows() : 1; }
  // Active lanes of row `r`, each repeated for its elements.
  Value* RowMask(unsigned r) {
    const unsigned row = e_.layout().row;
    llvm::SmallVector<int, 128> from;
    for (unsigned i = 0; i < row; ++i)
      for (unsigned k = 0; k < access_.length; ++k) from.push_back(static_cast<int>(r * row + i));
    return b_.CreateShuffleVector(e_.MaskVector(), from);
  }

  Values LoadContiguous() {
    const unsigned row = e_.layout().row, length = access_.length;
    CheckRows(pieces());
    Values parts;
    for (unsigned r = 0; r < pieces(); ++r) {
      Value* mask = RowMask(r);
      // If all rows share one address, the mask is the union of their lanes.
      for (unsigned other = 1; pieces() == 1 && other < e_.layout().rows(); ++other)
        mask = b_.CreateOr(mask, RowMask(other));
      auto* const type = Vector(row * length);
      parts.push_back(b_.CreateMaskedLoad(type, RowAddress(r), llvm::Align(1), mask,
                                          llvm::Constant::getNullValue(type)));
    }
    // Separates each element's values in every part, then concatenates the parts.
    Values values;
    for (unsigned k = 0; k < length; ++k) {
      Values rows;
      for (auto* part : parts) {
        llvm::SmallVector<int, 32> from;
        for (unsigned i = 0; i < row; ++i) from.push_back(static_cast<int>(i * length + k));
        rows.push_back(length == 1 ? part : b_.CreateShuffleVector(part, from));
      }
      values.push_back(Together(rows));
    }
    return values;
  }

  // Concatenates rows; repeats a single one.
  Value* Together(const Values& rows) {
    const unsigned row = e_.layout().row;
    if (row == 32) return rows[0];
    if (rows.size() == 1) {
      llvm::SmallVector<int, 32> from;
      for (unsigned i = 0; i < 32; ++i) from.push_back(static_cast<int>(i % row));
      return b_.CreateShuffleVector(rows[0], from);
    }
    Values parts = rows;
    while (parts.size() > 1) {
      Values joined;
      for (std::size_t i = 0; i < parts.size(); i += 2) {
        const auto count = llvm::cast<llvm::FixedVectorType>(parts[i]->getType())->getNumElements();
        llvm::SmallVector<int, 32> from;
        for (unsigned j = 0; j < 2 * count; ++j) from.push_back(static_cast<int>(j));
        joined.push_back(b_.CreateShuffleVector(parts[i], parts[i + 1], from));
      }
      parts = joined;
    }
    return parts[0];
  }

  void StoreContiguous(const Values& values) {
    const unsigned row = e_.layout().row, length = access_.length;
    CheckRows(pieces());
    for (unsigned r = 0; r < e_.layout().rows(); ++r) {
      // Selects the row's lanes of each element, then interleaves the elements of each lane.
      Values parts;
      for (auto* value : values) {
        llvm::SmallVector<int, 32> from;
        for (unsigned i = 0; i < row; ++i) from.push_back(static_cast<int>(r * row + i));
        parts.push_back(row == 32 ? value : b_.CreateShuffleVector(value, from));
      }
      Value* all = parts[0];
      if (length > 1) {
        while (parts.size() > 1) {
          Values joined;
          for (std::size_t i = 0; i < parts.size(); i += 2) {
            const auto count =
                llvm::cast<llvm::FixedVectorType>(parts[i]->getType())->getNumElements();
            llvm::SmallVector<int, 128> from;
            for (unsigned j = 0; j < 2 * count; ++j) from.push_back(static_cast<int>(j));
            joined.push_back(b_.CreateShuffleVector(parts[i], parts[i + 1], from));
          }
          parts = joined;
        }
        llvm::SmallVector<int, 128> from;
        for (unsigned i = 0; i < row; ++i)
          for (unsigned k = 0; k < length; ++k) from.push_back(static_cast<int>(k * row + i));
        all = b_.CreateShuffleVector(parts[0], from);
      }
      StoreRow(all, RowAddress(pieces() == 1 ? 0 : r), RowMask(r));
    }
  }
  // Whole rows use ordinary stores. The processor does not read a cache line completely written by
  // such stores only.
  void StoreRow(Value* row, Value* to, Value* mask) {
    if (access_.space == Space::kShared || access_.space == Space::kLocal ||
        e_.layout().row != 32) {
      b_.CreateMaskedStore(row, to, llvm::Align(1), mask);
      return;
    }
    auto* const whole = NewBlock();
    auto* const part = NewBlock();
    auto* const done = NewBlock();
    b_.CreateCondBr(b_.CreateICmpEQ(e_.mask(), b_.getInt32(0xffffffff)), whole, part);
    b_.SetInsertPoint(whole);
    b_.CreateAlignedStore(row, to, llvm::Align(1));
    b_.CreateBr(done);
    b_.SetInsertPoint(part);
    b_.CreateMaskedStore(row, to, llvm::Align(1), mask);
    b_.CreateBr(done);
    b_.SetInsertPoint(done);
  }

  // True if the lanes' accesses can be combined as words of 4 or 8 bytes.
  bool gathers() const { return access_.bytes() % 4 == 0 && !access_.order.is_atomic(); }
  // True if gathers need no code per lane. A kernel may have hundreds of accesses with indices able
  // to wrap around. A loop for each would dominate the compile time.
  bool gathers_at_once() const { return gathers() && e_.module().host().avx512f; }
  unsigned word_bytes() const { return access_.bytes() % 8 == 0 ? 8 : 4; }
  llvm::FixedVectorType* Integers(unsigned bytes) {
    return llvm::FixedVectorType::get(b_.getIntNTy(8 * bytes), 32);
  }
  Value* WordAddresses(Value* addresses, unsigned word) {
    return word == 0 ? addresses
                     : b_.CreateGEP(b_.getInt8Ty(), addresses,
                                    b_.getInt64(std::uint64_t{word} * word_bytes()));
  }
  // Conversion of words to the elements of each lane, by halving, and back.
  Values FromWords(Values words) {
    for (unsigned bytes = word_bytes(); bytes > ptx::BytesOf(access_.type); bytes /= 2) {
      Values halves;
      for (auto* word : words) {
        auto* const parts =
            b_.CreateBitCast(word, llvm::FixedVectorType::get(b_.getIntNTy(4 * bytes), 64));
        for (const int which : {0, 1}) {
          llvm::SmallVector<int, 32> from;
          for (int i = 0; i < 32; ++i) from.push_back(2 * i + which);
          halves.push_back(b_.CreateShuffleVector(parts, from));
        }
      }
      words = halves;
    }
    for (auto*& word : words) word = b_.CreateBitCast(word, Vector(32));
    return words;
  }
  Values ToWords(const Values& values) {
    Values words;
    const unsigned element = ptx::BytesOf(access_.type);
    for (auto* value : values) words.push_back(b_.CreateBitCast(value, Integers(element)));
    for (unsigned bytes = element; bytes < word_bytes(); bytes *= 2) {
      llvm::SmallVector<int, 64> from;
      for (int i = 0; i < 32; ++i) from.append({i, 32 + i});
      Values wider;
      for (std::size_t i = 0; i < words.size(); i += 2)
        wider.push_back(b_.CreateBitCast(b_.CreateShuffleVector(words[i], words[i + 1], from),
                                         Integers(2 * bytes)));
      words = wider;
    }
    return words;
  }
  Value* LaneAddresses() {
    return e_.WithWidth(32, [&]() -> Value* {
      const Operand& base = address_.elements[0];
      auto* const byte = b_.getInt8Ty();
      const auto offset = static_cast<std::uint64_t>(address_.offset);
      if (base.kind != Operand::Kind::kRegister) {
        auto* const value = b_.CreateAdd(e_.VariableValue(base, 64), e_.ConstInt(64, offset));
        return b_.CreateIntToPtr(value, llvm::FixedVectorType::get(e_.Pointer(), 32));
      }
      if (access_.space == Space::kShared) {
        auto* const sum =
            b_.CreateAdd(e_.Read(base, ptx::Type::kU32), e_.ConstInt(32, offset & 0xffffffff));
        return b_.CreateGEP(byte, e_.SharedBase(), b_.CreateZExt(sum, e_.Int(64)));
      }
      auto* const value = b_.CreateAdd(e_.Read(base, ptx::Type::kU64), e_.ConstInt(64, offset));
      return b_.CreateIntToPtr(value, llvm::FixedVectorType::get(e_.Pointer(), 32));
    });
  }
  bool CheckAddress() {
    const Operand& base = address_.elements[0];
    if (base.kind == Operand::Kind::kRegister && access_.space != Space::kShared &&
        e_.OperandBits(base) != 64) {
      // Address() reports the error.
      e_.WithWidth(
          1, [&] { return e_.Address(address_, access_.space, access_.bytes()); }, b_.getInt32(0));
      return false;
    }
    return true;
  }

  Values LoadEach() {
    if (!CheckAddress()) return Nothing();
    return Frozen(gathers() ? Gather() : LoadInLoop());
  }
  Values Gather() {
    auto* const type = Integers(word_bytes());
    auto* const addresses = LaneAddresses();
    CheckLanes(addresses);
    Values words;
    for (unsigned i = 0; i * word_bytes() < access_.bytes(); ++i)
      words.push_back(b_.CreateMaskedGather(type, WordAddresses(addresses, i), llvm::Align(1),
                                            e_.MaskVector(), llvm::Constant::getNullValue(type)));
    return FromWords(words);
  }
  void StoreEach(const Values& values) {
    if (!CheckAddress()) return;
    if (gathers())
      Scatter(values);
    else
      StoreInLoop(values);
  }
  void Scatter(const Values& values) {
    auto* const addresses = LaneAddresses();
    CheckLanes(addresses);
    const Values words = ToWords(values);
    for (unsigned i = 0; i < words.size(); ++i)
      b_.CreateMaskedScatter(words[i], WordAddresses(addresses, i), llvm::Align(1),
                             e_.MaskVector());
  }
  Values Nothing() { return Values(access_.length, llvm::Constant::getNullValue(Vector(32))); }

  Values LoadInLoop() {
    llvm::SmallVector<llvm::AllocaInst*, 8> copies;
    for (unsigned k = 0; k < access_.length; ++k) copies.push_back(e_.Scratch(element_));
    e_.ForEachLane([&] {
      auto* const from = e_.Address(address_, access_.space, access_.bytes());
      const auto loaded = LoadElements(e_, access_, from);
      for (unsigned k = 0; k < access_.length; ++k)
        b_.CreateStore(loaded[k], e_.ScratchOf(copies[k], e_.lane()));
    });
    Values values;
    for (auto* copy : copies) {
      auto* const type = copy->getAllocatedType();
      values.push_back(b_.CreateSelect(e_.MaskVector(), b_.CreateLoad(type, copy),
                                       llvm::Constant::getNullValue(type)));
    }
    return values;
  }
  void StoreInLoop(const Values& values) {
    llvm::SmallVector<llvm::AllocaInst*, 8> copies;
    for (auto* value : values) {
      copies.push_back(e_.Scratch(element_));
      b_.CreateStore(value, copies.back());
    }
    e_.ForEachLane([&] {
      auto* const to = e_.Address(address_, access_.space, access_.bytes());
      Values own;
      for (auto* copy : copies)
        own.push_back(b_.CreateLoad(element_, e_.ScratchOf(copy, e_.lane())));
      StoreElements(e_, access_, to, own);
    });
  }

  FunctionEmitter& e_;
  llvm::IRBuilder<>& b_;
  const Access& access_;
  const Operand& address_;
  llvm::Type* element_ = nullptr;
  Shape shape_;
};

}  // namespace

void EmitWarpLoad(FunctionEmitter& e, const Access& access, llvm::ArrayRef<Operand> destinations) {
  WarpAccess warp(e, access, e.operand(1));
  if (e.failed()) return;
  Values values;
  unsigned width = 32;
  Shape result = analysis::kLanesShape;
  if (warp.shape().uniform()) {
    width = 1;
    result = analysis::kUniformShape;
    auto* const address = e.Address(e.operand(1), access.space, access.bytes());
    if (e.failed()) return;
    values = LoadElements(e, access, address);
  } else if (warp.shape().flat() && warp.shape().spread == Spread::kRows) {
    width = e.layout().rows();
    result.spread = Spread::kRows;
    values = warp.LoadRows();
  } else {
    values = warp.LoadLanes();
  }
  if (e.failed()) return;
  e.SetResult(result);
  e.WithWidth(width, [&] {
    for (unsigned i = 0; i < access.length; ++i) e.Write(destinations[i], values[i], access.type);
  });
}

void EmitWarpStore(FunctionEmitter& e, const Access& access, llvm::ArrayRef<Operand> sources) {
  WarpAccess warp(e, access, e.operand(0));
  if (e.failed()) return;
  if (warp.shape().uniform()) {
    // If several lanes store to one address, the last lane's value stays.
    auto* const last =
        e.b.CreateSub(e.b.getInt32(31),
                      e.b.CreateBinaryIntrinsic(llvm::Intrinsic::ctlz, e.mask(), e.b.getTrue()));
    e.WithWidth(
        1,
        [&] {
          auto* const address = e.Address(e.operand(0), access.space, access.bytes());
          Values values;
          for (const auto& source : sources) values.push_back(e.Read(source, access.type));
          if (!e.failed()) StoreElements(e, access, address, values);
        },
        last);
    return;
  }
  Values values;
  e.WithWidth(32, [&] {
    for (const auto& source : sources) values.push_back(e.Read(source, access.type));
  });
  if (!e.failed()) warp.StoreLanes(values);
}

}  // namespace cuspan::softgpu::emit
