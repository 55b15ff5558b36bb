"""A client that was written for OpenAI's own server: agents of pydantic-ai, whose answers and calls pydantic checks."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from pydantic import BaseModel, Field

from tests.serving.servers import Server


class Person(BaseModel):
    """A person."""

    name: str = Field(max_length=12)
    age: int = Field(ge=0, le=99)


@pytest.mark.parametrize("way", ["response_format", "tool"])
def test_an_agent(server: Server, way: str) -> None:
    from openai import AsyncOpenAI
    from pydantic_ai import Agent, NativeOutput, ToolOutput
    from pydantic_ai.models.openai import OpenAIChatModel
    from pydantic_ai.providers.openai import OpenAIProvider

    output: Any = NativeOutput(Person) if way == "response_format" else ToolOutput(Person)
    settings: Any = {"max_tokens": 80, "temperature": 0}

    async def run() -> list[Any]:
        async with AsyncOpenAI(base_url=f"{server.url}/v1", api_key="none") as client:
            model = OpenAIChatModel(server.model, provider=OpenAIProvider(openai_client=client))
            agent = Agent(model, output_type=output, model_settings=settings)
            whole = await agent.run("Who? ")
            async with agent.run_stream("Who? ") as stream:
                return [whole.output, await stream.get_output()]

    whole, streamed = asyncio.run(run())
    assert isinstance(whole, Person)
    assert streamed == whole
