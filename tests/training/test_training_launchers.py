"""What is refused of a launcher, each with its reason. Those that are supported: test_distributed.py, test_sharded.py,
test_fp16.py, test_compile.py, test_gradient_checkpointing.py."""

from types import SimpleNamespace

import pytest
import tiny_run
import torch
from accelerate.utils import DistributedType, DynamoBackend

from seal_hf import SealTrainer, TensorRows
from seal_hf.training import launchers
from seal_hf.training.launchers import check_data_parallel, check_launched_net, check_launcher, check_resume, spare_crf


@pytest.fixture(autouse=True)
def no_launcher(monkeypatch):
    for name in ("LOCAL_RANK", "WORLD_SIZE", "ACCELERATE_USE_FSDP", "ACCELERATE_USE_DEEPSPEED"):
        monkeypatch.delenv(name, raising=False)


def chosen(kind, processes=2, plugin=None, precision="no", backend=DynamoBackend.NO, parallelism=None):
    """What `check_launcher` reads of an accelerator."""
    plugins = dict(fsdp_plugin=plugin, deepspeed_plugin=plugin, dynamo_plugin=SimpleNamespace(backend=backend))
    return SimpleNamespace(
        distributed_type=kind,
        num_processes=processes,
        split_batches=False,
        even_batches=True,
        mixed_precision=precision,
        native_amp=True,
        parallelism_config=parallelism,
        state=SimpleNamespace(**plugins),
    )


def fsdp(**changes):
    plugin = dict(fsdp_version=2, state_dict_type="StateDictType.FULL_STATE_DICT", cpu_ram_efficient_loading=False)
    return SimpleNamespace(**plugin | changes)


def zero(stage=2, **config):
    return SimpleNamespace(zero_stage=stage, deepspeed_config=config)


@pytest.mark.parametrize("kind", [DistributedType.MEGATRON_LM, DistributedType.XLA, DistributedType.MULTI_NPU])
def test_launchers_that_are_not_supported_are_refused_by_name(tmp_path, kind):
    with pytest.raises(ValueError, match=f"The launcher chose {kind.value}, .*Use DDP"):
        check_launcher(tiny_run.arguments(tmp_path), chosen(kind))


@pytest.mark.parametrize(
    "accelerator",
    [
        chosen(DistributedType.NO, processes=1),
        chosen(DistributedType.MULTI_CPU),
        chosen(DistributedType.MULTI_GPU, precision="fp16"),
        chosen(DistributedType.FSDP, plugin=fsdp(), precision="bf16"),
        chosen(DistributedType.DEEPSPEED, plugin=zero(), precision="bf16"),
        chosen(DistributedType.MULTI_GPU, parallelism=SimpleNamespace(tp_size=1, cp_size=None, sp_size=1)),
    ],
)
def test_supported_launchers_are_accepted(tmp_path, accelerator):
    check_launcher(tiny_run.arguments(tmp_path), accelerator)


def test_data_parallel_is_refused(tmp_path):
    args = tiny_run.arguments(tmp_path)
    args._n_gpu = 2
    with pytest.raises(ValueError, match="2 GPUs are visible to one process .*DataParallel.*torchrun --nproc_per_node"):
        SealTrainer(tiny_run.model(), args, train_dataset=TensorRows(tiny_run.table(48)))


def test_split_batches_do_not_go_with_repeats(tmp_path):
    split = {"split_batches": True}
    with pytest.raises(ValueError, match="`split_batches` and `batch_repeats` > 1 do not go together"):
        tiny_run.make(tmp_path, accelerator_config=dict(split), batch_repeats=2)
    tiny_run.make(tmp_path, accelerator_config=dict(split))


def test_unequal_numbers_of_batches_are_refused_for_several_processes(tmp_path):
    """Of 37 rows in batches of 4 and two processes, one would wait for the other forever."""
    several = chosen(DistributedType.MULTI_CPU)
    several.even_batches = False
    for check in (check_launcher, check_data_parallel):
        with pytest.raises(ValueError, match="`even_batches` is False .* would wait for them forever"):
            check(tiny_run.arguments(tmp_path), several)
    alone = chosen(DistributedType.NO, processes=1)
    alone.even_batches = False
    check_launcher(tiny_run.arguments(tmp_path), alone)


def test_processes_that_do_not_know_of_each_other_are_refused(tmp_path, monkeypatch):
    """torchrun without use_cpu on a machine without GPUs: each process would be a run of its own, or gloo is set up but
    no gradient is averaged."""
    with pytest.raises(ValueError, match="accelerate chose NO with 2: gradients would not be averaged.*use_cpu=True"):
        check_launcher(tiny_run.arguments(tmp_path), chosen(DistributedType.NO))
    args = tiny_run.arguments(tmp_path)
    monkeypatch.setenv("WORLD_SIZE", "2")
    check_launcher(args, chosen(DistributedType.NO, processes=1))  # a cluster's own variable, and no launcher
    monkeypatch.setenv("LOCAL_RANK", "0")
    with pytest.raises(ValueError, match=r"started 2 processes \(WORLD_SIZE\), but accelerate chose NO with 1"):
        check_launcher(args, chosen(DistributedType.NO, processes=1))


@pytest.mark.parametrize("name, kind", [("FSDP", DistributedType.MULTI_CPU), ("DEEPSPEED", DistributedType.NO)])
def test_sharding_that_accelerate_leaves_out_is_refused(tmp_path, monkeypatch, name, kind):
    """As under `accelerate launch --use_fsdp` on a CPU: plain DDP, without a word."""
    args = tiny_run.arguments(tmp_path)
    monkeypatch.setenv(f"ACCELERATE_USE_{name}", "true")
    message = f"{name.lower()} was asked for .*accelerate chose {kind.value}, which shards nothing"
    with pytest.raises(ValueError, match=message):
        check_launcher(args, chosen(kind, processes=1 if kind is DistributedType.NO else 2))


def test_the_argument_fsdp_is_refused_where_there_is_one_process(tmp_path):
    with pytest.raises(ValueError, match="fsdp"):
        tiny_run.make(tmp_path, fsdp="full_shard")


@pytest.mark.parametrize("name", ["tp_size", "cp_size", "sp_size"])
def test_parallelism_within_a_row_or_a_layer_is_refused(tmp_path, name):
    accelerator = chosen(DistributedType.MULTI_GPU, parallelism=SimpleNamespace(**{name: 2}))
    with pytest.raises(ValueError, match=f"`parallelism_config` has {name}=2: .*Only data parallelism is supported"):
        check_launcher(tiny_run.arguments(tmp_path), accelerator)


@pytest.mark.parametrize(
    "kind, changes, options, message",
    [
        ("FSDP", dict(plugin=fsdp()), dict(fold_decision=True), "FSDP does not go with fold_decision: fold what was"),
        ("FSDP", dict(plugin=fsdp(fsdp_version=1)), {}, "FSDP does not go with fsdp_version 1: set fsdp_version: 2"),
        ("FSDP", dict(plugin=fsdp(state_dict_type="SHARDED_STATE_DICT")), {}, "set fsdp_state_dict_type: FULL_STATE_"),
        ("FSDP", dict(plugin=fsdp(cpu_ram_efficient_loading=True)), {}, "set fsdp_cpu_ram_efficient_loading: false"),
        ("FSDP", dict(plugin=fsdp(), precision="fp16"), {}, "FSDP does not go with fp16: use bf16"),
        ("FSDP", dict(plugin=fsdp(), backend=DynamoBackend.INDUCTOR), {}, "FSDP does not go with torch.compile of the"),
        ("FSDP", dict(plugin=fsdp()), dict(gradient_checkpointing=True), "with gradient_checkpointing: leave it out"),
        ("FSDP", dict(plugin=fsdp()), dict(loss="infnet_plus"), "with energy_loss='infnet_plus': use infnet"),
        ("DEEPSPEED", dict(plugin=zero(3)), {}, "DeepSpeed does not go with ZeRO stage 3: set zero_stage: 2"),
        ("DEEPSPEED", dict(plugin=zero(), precision="fp16"), {}, "DeepSpeed does not go with fp16: use bf16"),
        ("DEEPSPEED", dict(plugin=zero(scheduler={})), {}, "its own scheduler: leave them to the Trainer's arguments"),
        (
            "DEEPSPEED",
            dict(plugin=zero()),
            dict(load_best_model_at_end=True),
            "load_best_model_at_end, since",
        ),
    ],
)
def test_options_that_do_not_go_with_a_sharded_task_net(tmp_path, kind, changes, options, message):
    options |= dict(eval_strategy="epoch", save_strategy="epoch") if options else {}
    with pytest.raises(ValueError, match=message):
        check_launcher(tiny_run.arguments(tmp_path, **options), chosen(DistributedType[kind], **changes))


def test_a_loss_net_with_parameters_in_the_task_net_cannot_be_beside_shards(tmp_path):
    args = tiny_run.arguments(tmp_path)
    args.loss_net_encoder = "adapters"
    with pytest.raises(ValueError, match="FSDP does not go with loss_net_encoder='adapters', .*use one of separate"):
        check_launcher(args, chosen(DistributedType.FSDP, plugin=fsdp()))


def test_a_crf_is_trained_without_a_search_for_unused_parameters_and_never_in_shards(tmp_path):
    args, handler = tiny_run.arguments(tmp_path), SimpleNamespace(find_unused_parameters=True)
    tagger = SimpleNamespace(crf=object())
    accelerator = chosen(DistributedType.MULTI_GPU)
    accelerator.ddp_handler = handler
    check_launched_net(args, accelerator, SimpleNamespace())
    spare_crf(args, accelerator, SimpleNamespace())
    assert args.ddp_find_unused_parameters is None and handler.find_unused_parameters
    check_launched_net(args, accelerator, tagger)
    spare_crf(args, accelerator, tagger)
    assert args.ddp_find_unused_parameters is handler.find_unused_parameters is False
    args.ddp_find_unused_parameters = True
    with pytest.raises(ValueError, match="`ddp_find_unused_parameters` is True, .* CRF"):
        check_launched_net(args, accelerator, tagger)
    with pytest.raises(ValueError, match="has a CRF, which does not go with FSDP: use DDP, or no CRF"):
        check_launched_net(args, chosen(DistributedType.FSDP, plugin=fsdp()), tagger)


def test_fsdp_writes_no_checkpoint_of_an_adapter(tmp_path, monkeypatch):
    args, adapted = tiny_run.arguments(tmp_path), SimpleNamespace()
    monkeypatch.setattr(launchers, "library_of", lambda net: "peft" if net is adapted else None)
    fsdp2 = chosen(DistributedType.FSDP, plugin=fsdp())
    with pytest.raises(ValueError, match="The task-net has an adapter, whose checkpoints FSDP cannot write: use DDP"):
        check_launched_net(args, fsdp2, adapted)
    check_launched_net(args, fsdp2, SimpleNamespace())
    check_launched_net(args, chosen(DistributedType.MULTI_GPU), adapted)


def test_a_deepspeed_checkpoint_is_not_resumed(tmp_path):
    deepspeed = chosen(DistributedType.DEEPSPEED, plugin=zero())
    with pytest.raises(ValueError, match="pickled.*SealForMultiLabel.from_pretrained"):
        check_resume(deepspeed, "checkpoint-4")
    check_resume(deepspeed, None)
    check_resume(chosen(DistributedType.MULTI_CPU), "checkpoint-4")


def test_a_task_net_that_was_loaded_in_shards_is_refused(tmp_path):
    """`from_pretrained(tp_plan="auto")` and the like: accelerate knows nothing of it."""
    nets = tiny_run.model()
    torch.distributed.init_process_group("gloo", store=torch.distributed.HashStore(), rank=0, world_size=1)
    try:
        mesh = torch.distributed.device_mesh.init_device_mesh("cpu", (1,))
        torch.distributed.tensor.distribute_module(nets.task_net, mesh)
        with pytest.raises(ValueError, match="task-net was loaded in shards .*without tp_plan"):
            tiny_run.make(tmp_path, nets=nets)
    finally:
        torch.distributed.destroy_process_group()
